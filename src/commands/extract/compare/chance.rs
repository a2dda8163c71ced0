//! What unrelated texts of the collection score.

use super::texts::TokenizedTexts;
use crate::{
    base::{
        error::{Error, Result},
        num::{ToU32, ToU64, ToUsize},
        setting::Setting,
    },
    similar::compare::{ChanceModel, Comparer, LEAST_PAIRS, SEED, SampledPair, spread_pairs},
};

/// The most pairs to sample.
const MOST_PAIRS: u64 = 128 * 128;
/// The most tokens that the sample compares: a second or two.
const MOST_TOKENS: u64 = 1 << 29;
/// The least score of an area: three equal tokens.
const FLOOR: u32 = 15;

/// Fits the model to pairs that are spread over the collection. The sample does not depend on which
/// pairs are compared, so that all slices have the same model.
pub(super) fn chance_model(texts: &TokenizedTexts, contents: u32) -> Result<ChanceModel> {
    let used: Vec<u32> = (0..contents)
        .filter(|&content| texts.tokens_of(content).to_usize() >= SEED)
        .collect();
    let pairs = (MOST_TOKENS / (texts.mean_tokens() + 1)).clamp(LEAST_PAIRS.to_u64(), MOST_PAIRS);
    let (mut comparer, mut prepared) = (Comparer::default(), None);
    let sample: Vec<SampledPair> = spread_pairs(used.len().to_u32(), pairs)
        .into_iter()
        .map(|(one, other)| {
            let [a, b] = [one, other].map(|place| used[place.to_usize()]);
            let [text, partner] = [a, b].map(|content| texts.get(content));
            if prepared.replace(a) != Some(a) {
                comparer.prepare(text);
            }
            let best = comparer.areas(text, partner, FLOOR).first();
            SampledPair {
                tokens: [a, b].map(|content| texts.tokens_of(content)),
                score: best.map_or(0, |area| area.score),
            }
        })
        .collect();
    ChanceModel::fit(&sample).ok_or_else(|| {
        Error::Usage(format!(
            "{}: the collection has {} pairs of texts, which is too few to tell what unrelated texts score; it takes {LEAST_PAIRS}",
            Setting::PValues,
            sample.len()
        ))
    })
}
