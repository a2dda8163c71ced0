//! The flags of dedup-shard plan that also find clusters.

use crate::{
    cli::{
        exclusions::MaxDf,
        threshold::{Threshold, cutoff, score_named},
        value_help::{score_names, threshold_help},
    },
    cluster::{ClusterOptions, TableFormat},
    commands::{Cutoff, Preset},
    similar::{KeepRule, Score},
};
use clap::{Args, builder::PossibleValuesParser};

#[derive(Args, Debug)]
#[command(next_help_heading = "Clusters")]
pub struct ClusterPlanArgs {
    /// Also find groups of documents that are connected by pairs, as dedup-extract clusters does: RUN/clusters.ndjson
    #[arg(long)]
    clusters: bool,
    #[arg(long, requires = "clusters", hide_short_help = true, help = score_names(), value_name = "SCORE", hide_possible_values = true, value_parser = PossibleValuesParser::new(Score::NAMES.map(|(name, ..)| name)))]
    cluster_score: Option<String>,
    /// The least score that connects two documents [default: 0.5]
    #[arg(long, requires = "clusters", hide_short_help = true, value_name = "X|P%", long_help = threshold_help(), allow_negative_numbers = true)]
    cluster_threshold: Option<Threshold>,
    /// For clusters, leave out text of more than N documents [default: auto, which finds boilerplate]
    #[arg(
        long,
        requires = "clusters",
        hide_short_help = true,
        value_name = "N|auto|none"
    )]
    cluster_max_df: Option<MaxDf>,
    /// Which document of a cluster stays: first, last, longest, shortest [default: first]
    #[arg(long, requires = "clusters", hide_short_help = true, value_name = "WHICH", hide_possible_values = true, value_parser = PossibleValuesParser::new(KeepRule::NAMES.map(|(name, _)| name)))]
    cluster_keep: Option<String>,
}

impl ClusterPlanArgs {
    /// How clusters are made, if they are asked for: what flags do not say follows from the preset
    /// of the index.
    pub fn plan(
        &self,
        preset: &Preset,
        format: TableFormat,
    ) -> Result<Option<ClusterOptions>, anyhow::Error> {
        let score = score_named(self.cluster_score.as_deref(), preset.clusters.score);
        let least = score.default_threshold();
        let Cutoff { score, threshold } =
            cutoff(score, self.cluster_threshold, preset.clusters, least)?;
        Ok(self.clusters.then_some(ClusterOptions {
            score,
            threshold,
            common: self.cluster_max_df.map_or(preset.common, MaxDf::rule),
            keep: KeepRule::named(self.cluster_keep.as_deref()),
            format,
        }))
    }
}
