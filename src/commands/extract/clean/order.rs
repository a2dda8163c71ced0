//! The order of preference: of documents with the same text, the one that comes first in it stays.

use super::{
    decide::Compared,
    members::{Member, Members},
    shards::ShardList,
};
use crate::{
    base::{
        error::Result,
        ids::DocNo,
        num::{ToU32, ToUsize},
    },
    commands::{DocumentStage, Observer, Settings, StageOutput, run},
    index::View,
    text::corpus::InputDocument,
};
use serde::{Deserialize, Serialize};
use std::{
    cmp::{Ordering, Reverse},
    str::FromStr,
};

/// Which of several documents with the same text stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// The first one of the input.
    First,
    /// The last one.
    Last,
    /// The one with most tokens.
    Longest,
    /// The one with fewest tokens.
    Shortest,
    /// None of them.
    None,
    /// The one with the greatest value of a field.
    Greatest(String),
    /// The one with the least value of a field.
    Least(String),
}

impl FromStr for Preference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "first" => Self::First,
            "last" => Self::Last,
            "longest" => Self::Longest,
            "shortest" => Self::Shortest,
            "none" => Self::None,
            _ => match text.rsplit_once(':') {
                Some((field, "max")) if !field.is_empty() => Self::Greatest(field.to_owned()),
                Some((field, "min")) if !field.is_empty() => Self::Least(field.to_owned()),
                _ => {
                    return Err(
                        "give first, last, longest, shortest, none, FIELD:max or FIELD:min"
                            .to_owned(),
                    );
                }
            },
        })
    }
}

impl Preference {
    /// The field that decides.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Greatest(field) | Self::Least(field) => Some(field),
            _ => None,
        }
    }

    /// The places of all documents in order of preference; of equals the first one of the input comes first. `keys`: the values of the field.
    pub fn order(
        &self,
        compared: &Compared<'_>,
        keys: &[FieldValue],
        prefixes: &PreferredPrefixes<'_>,
    ) -> Result<Vec<u32>> {
        let Compared { view, members, .. } = *compared;
        let mut order: Vec<u32> = (0..members.list.len().to_u32()).collect();
        let tokens = |&place: &u32| tokens_of(view, members.list[place.to_usize()].document);
        let key = |place: &u32| &keys[place.to_usize()];
        match self {
            Self::First | Self::None => {}
            Self::Last => order.reverse(),
            Self::Longest => order.sort_by_key(|place| Reverse(tokens(place))),
            Self::Shortest => order.sort_by_key(tokens),
            Self::Greatest(_) => order.sort_by(|a, b| key(a).compare(key(b), Ordering::reverse)),
            Self::Least(_) => order.sort_by(|a, b| key(a).compare(key(b), |order| order)),
        }
        if !prefixes.prefixes.is_empty() {
            let ranks = prefixes.ranks(compared)?;
            order.sort_by_key(|place| ranks[place.to_usize()]);
        }
        Ok(order)
    }
}

fn tokens_of(view: &View<'_>, document: DocNo) -> u32 {
    view.contents()[view.content_of(document).index()].tokens
}

/// Documents whose file or id starts with one of these come before all others, those of the first one before those of the second.
pub struct PreferredPrefixes<'p> {
    pub prefixes: &'p [String],
    pub shards: &'p ShardList,
}

impl PreferredPrefixes<'_> {
    fn ranks(&self, compared: &Compared<'_>) -> Result<Vec<u32>> {
        let rank = |member: &Member| {
            let (id, _) = compared.name(member.document)?;
            let file = self.shards.shards[member.shard.to_usize()].entry.name();
            let is_it = |prefix: &String| file.starts_with(prefix) || id.starts_with(prefix);
            let rank = self.prefixes.iter().position(is_it);
            Ok(rank.unwrap_or(self.prefixes.len()).to_u32())
        };
        compared.members.list.iter().map(rank).collect()
    }
}

/// The value of a field. Numbers come before texts, and what is missing comes last.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum FieldValue {
    /// There is none.
    #[default]
    Missing,
    /// A number, and its exact value if it is a whole one: large ones may have the same floating-point number.
    Number(f64, Option<i128>),
    /// A text, such as a date: texts are compared byte by byte.
    Text(Box<str>),
}

impl FieldValue {
    fn of(text: &str) -> Self {
        match text.parse::<f64>() {
            Ok(number) if !number.is_nan() => Self::Number(number, text.parse().ok()),
            _ => Self::Text(text.into()),
        }
    }

    fn compare(&self, other: &Self, direction: impl Fn(Ordering) -> Ordering) -> Ordering {
        match (self, other) {
            (Self::Missing, Self::Missing) => Ordering::Equal,
            (Self::Missing, _) => Ordering::Greater,
            (_, Self::Missing) => Ordering::Less,
            (Self::Number(a, whole), Self::Number(b, other)) => {
                direction(a.total_cmp(b).then(whole.cmp(other)))
            }
            (Self::Text(a), Self::Text(b)) => direction(a.cmp(b)),
            (Self::Number(..), Self::Text(_)) => direction(Ordering::Less),
            (Self::Text(_), Self::Number(..)) => direction(Ordering::Greater),
        }
    }
}

/// Reads the value of a field of each document, and returns them in the order of the members.
///
/// Memory: 16 bytes a document, and the texts among the values.
pub fn field_values(
    field: &str,
    members: &Members,
    shards: &ShardList,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Vec<FieldValue>> {
    let mut corpus = settings.corpus.clone();
    // An id may be a number as well as a text, in every format.
    field.clone_into(&mut corpus.fields.id_field);
    corpus.placed_ids = false;
    let settings = Settings {
        corpus,
        ..settings.clone()
    };
    let source = shards.source(&settings)?;
    let stage = FieldStage { shards };
    let (mut values, mut next) = (vec![FieldValue::Missing; members.list.len()], 0);
    run(
        &stage,
        source,
        &settings,
        observer,
        |found: FieldValues, _| {
            for (shard, record, value) in found.0 {
                let at = |member: &Member| (member.shard, member.record);
                while let Some(member) = members.list.get(next)
                    && at(member) < (shard, record)
                {
                    next += 1;
                }
                if members
                    .list
                    .get(next)
                    .is_some_and(|member| at(member) == (shard, record))
                {
                    values[next] = value;
                }
            }
            Ok(())
        },
    )?;
    Ok(values)
}

#[derive(Clone)]
struct FieldStage<'s> {
    shards: &'s ShardList,
}

#[derive(Default)]
struct FieldValues(Vec<(u32, u64, FieldValue)>);

impl StageOutput for FieldValues {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }
}

impl DocumentStage for FieldStage<'_> {
    type Out = FieldValues;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut FieldValues) -> Result<(), String> {
        let Some(shard) = self.shards.find_file(item.file) else {
            return Ok(());
        };
        let entry = &self.shards.shards[shard].entry;
        // A document without the field gets an id that tells where it is.
        let is_missing = item.record == 0 || item.id == format!("{}:{}", entry.id, item.record);
        let value = if is_missing {
            FieldValue::Missing
        } else {
            FieldValue::of(item.id)
        };
        out.0.push((shard.to_u32(), item.record, value));
        Ok(())
    }

    fn finish(&mut self, _: &mut FieldValues) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_by_name() {
        for (text, preference) in [
            ("first", Preference::First),
            ("none", Preference::None),
            (
                "meta.date:max",
                Preference::Greatest("meta.date".to_owned()),
            ),
            ("a:b:min", Preference::Least("a:b".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(preference));
        }
        for text in ["", "newest", ":max", "date:", "date"] {
            assert!(text.parse::<Preference>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_missing_comes_last_in_both_directions() {
        let mut values: Vec<_> = ["", "10", "9", "2024-01-02", "-1"]
            .map(|text| match text {
                "" => FieldValue::Missing,
                text => FieldValue::of(text),
            })
            .to_vec();
        values.sort_by(|a, b| a.compare(b, |order| order));
        let numbers = [-1, 9, 10].map(|n: i32| FieldValue::Number(n.into(), Some(n.into())));
        assert_eq!(values[..3], numbers);
        assert_eq!(values[4], FieldValue::Missing);
        values.sort_by(|a, b| a.compare(b, Ordering::reverse));
        assert_eq!(values[0], FieldValue::Text("2024-01-02".into()));
        assert_eq!(values[4], FieldValue::Missing);
    }
}
