//! dedup-index stats: what an index holds, as a table or as JSON.

use super::{
    super::{
        args::{QuietArgs, threads_of},
        output::{Output, grouped},
        progress::say,
        width::warning,
    },
    IndexArgs, PROGRAM,
};
use crate::index::{Index, Stats, ranges_text, stats};
use clap::Args;
use std::{io::Write, process::ExitCode};

#[derive(Args, Debug)]
pub struct StatsArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    quiet: QuietArgs,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run_stats(args: &StatsArgs) -> Result<ExitCode, anyhow::Error> {
    let threads = threads_of(None);
    let stats = stats(&Index::open(&args.of.index)?, threads)?;
    let mut out = Output::open(None, false)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&stats)?)?;
    } else {
        out.write_all(stats_table(&stats).as_bytes())?;
    }
    if stats.width.too_narrow && !args.quiet.quiet {
        let name = args.of.index.display();
        say(&format!("{PROGRAM}: {name}: {}", warning(&stats.width)));
    }
    Ok(ExitCode::SUCCESS)
}

fn stats_table(stats: &Stats) -> String {
    let number = |name: &str, value: u64| format!("{name:24}{:>16}\n", grouped(value));
    let pins: Vec<String> = stats
        .pins
        .iter()
        .map(|(name, generation)| format!("{name} {generation}"))
        .collect();
    let mut table = format!("{:24}{}\n", "scheme", stats.scheme);
    if let Some(preset) = &stats.preset {
        table += &format!("{:24}{preset}\n", "preset");
    }
    for (name, value) in [
        ("generation", stats.generation),
        ("segments", stats.segments),
        ("parts", stats.parts),
        ("documents", stats.documents),
        ("  aliases", stats.aliases),
        ("bytes of text", stats.bytes),
        ("tokens", stats.tokens),
        ("postings", stats.postings),
        ("  stored", stats.postings_stored),
        ("distinct blots", stats.blots),
        ("  singletons", stats.singletons),
        ("document sets", stats.sets),
        ("  members", stats.set_members),
        ("chance matches", stats.width.chance_matches),
        ("free numbers", stats.free_numbers),
    ] {
        table += &number(name, value);
    }
    if let Some(dictionary) = &stats.dictionary {
        for (name, value) in [
            ("words", dictionary.words),
            ("  singletons", dictionary.singletons),
            ("  documents", dictionary.pairs),
        ] {
            table += &number(name, value);
        }
    }
    table += &format!(
        "{:24}{:>16}\n",
        "generations kept",
        ranges_text(&stats.generations)
    );
    if !pins.is_empty() {
        table += &format!("{:24}{:>16}\n", "pins", pins.join(", "));
    }
    table += &number("bytes on disk", stats.disk_total);
    stats
        .disk
        .iter()
        .for_each(|(name, &bytes)| table += &number(&format!("  {name}"), bytes));
    let bits = [
        ("bits a posting", stats.bits_per_posting),
        ("bits a shared blot", stats.bits_per_shared_blot),
        ("bits a singleton", stats.bits_per_singleton),
    ];
    let df = [
        ("documents a blot, mean", stats.df.mean),
        ("  sigma", stats.df.sigma),
    ];
    bits.iter()
        .chain(&df)
        .for_each(|(name, value)| table += &format!("{name:24}{value:>16.2}\n"));
    let top: Vec<_> = stats
        .df
        .top
        .iter()
        .map(|(length, blots)| format!("{} ({} blots)", grouped(*length), grouped(*blots)))
        .collect();
    table + &format!("{:24}{}\n", "  most", top.join(", "))
}
