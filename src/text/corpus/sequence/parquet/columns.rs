//! Which column of a table holds what: names, types, and the places of nulls in nested columns.

use super::super::{FieldNames, RecordFault, first_names};
use parquet::{
    basic::{ConvertedType, LogicalType, Type},
    schema::types::{ColumnDescPtr, SchemaDescriptor, Type as SchemaType},
};

/// A column that was chosen.
#[derive(Clone)]
pub struct ChosenColumn {
    /// Its number among all leaf columns.
    pub number: usize,
    pub name: String,
    pub descriptor: ColumnDescPtr,
}

impl ChosenColumn {
    /// The definition level of a list that is there, but may be empty; a lower one means null.
    pub fn list_level(&self) -> i16 {
        self.descriptor.repeated_ancestor_def_level() - 1
    }

    pub fn is_list(&self) -> bool {
        self.descriptor.max_rep_level() > 0
    }
}

/// The names of all leaf columns, as a user writes them: `meta.url`, and `tags` for a list `tags.list.element`.
pub fn column_names(schema: &SchemaDescriptor) -> Vec<String> {
    (0..schema.num_columns())
        .map(|number| column_name(schema, number))
        .collect()
}

fn column_name(schema: &SchemaDescriptor, number: usize) -> String {
    let descriptor = schema.column(number);
    let parts = descriptor.path().parts();
    let mut names: Vec<&str> = Vec::new();
    let mut node: &SchemaType = schema.root_schema();
    let mut skipped_levels = 0;
    for part in parts {
        let child = children(node).iter().find(|child| child.name() == part);
        if skipped_levels == 0 {
            names.push(part);
        } else {
            skipped_levels -= 1;
        }
        let Some(child) = child else { continue };
        if is_list(child) {
            // The repeated group and, unless the group itself is the element, the element in it.
            let group = children(child).first();
            skipped_levels = if group.is_some_and(|group| group.is_group()) {
                2
            } else {
                1
            };
        }
        node = child;
    }
    names.join(".")
}

fn children(node: &SchemaType) -> &[std::sync::Arc<SchemaType>] {
    if node.is_group() {
        node.get_fields()
    } else {
        &[]
    }
}

fn is_list(node: &SchemaType) -> bool {
    let info = node.get_basic_info();
    node.is_group()
        && (info.converted_type() == ConvertedType::LIST
            || matches!(info.logical_type_ref(), Some(LogicalType::List)))
}

/// The columns for the id and the text.
pub fn choose(
    schema: &SchemaDescriptor,
    names: &[String],
    fields: &FieldNames<'_>,
) -> Result<(ChosenColumn, Option<ChosenColumn>), RecordFault> {
    let Some(text) = find(schema, names, fields.text)? else {
        return Err(RecordFault::NoText {
            fields: first_names(names.iter()),
        });
    };
    ensure_text(&text)?;
    let id = find(schema, names, fields.id)?;
    if let Some(id) = &id {
        ensure_id(id)?;
    }
    Ok((text, id))
}

/// The column with this name. A column whose own name has the dot wins over a nested one.
fn find(
    schema: &SchemaDescriptor,
    names: &[String],
    wanted: &str,
) -> Result<Option<ChosenColumn>, RecordFault> {
    let depth = |number: usize| schema.column(number).path().parts().len();
    let path = |number: usize| schema.column(number).path().string();
    let found = (0..names.len())
        .filter(|&number| names[number] == wanted || path(number) == wanted)
        .min_by_key(|&number| depth(number));
    if let Some(number) = found {
        return Ok(Some(ChosenColumn {
            number,
            name: wanted.to_owned(),
            descriptor: schema.column(number),
        }));
    }
    let inside = format!("{wanted}.");
    let below = first_names(names.iter().filter(|name| name.starts_with(&inside)));
    if below.is_empty() {
        return Ok(None);
    }
    let fields = below.join(", ");
    let what = format!("column {wanted} is a struct; choose one of its fields: {fields}");
    Err(RecordFault::Bad(what))
}

fn ensure_text(column: &ChosenColumn) -> Result<(), RecordFault> {
    let descriptor = &column.descriptor;
    let is_bytes = descriptor.physical_type() == Type::BYTE_ARRAY;
    let is_number = descriptor.converted_type() == ConvertedType::DECIMAL;
    if is_bytes && !is_number && descriptor.max_rep_level() <= 1 {
        return Ok(());
    }
    let what = format!(
        "column {} is {}, not a string or a list of strings",
        column.name,
        type_name(column)
    );
    Err(RecordFault::Bad(what))
}

fn ensure_id(column: &ChosenColumn) -> Result<(), RecordFault> {
    let is_known = matches!(
        column.descriptor.physical_type(),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY | Type::INT32 | Type::INT64
    );
    if is_known && !column.is_list() {
        return Ok(());
    }
    let what = format!(
        "column {} is {}, not a string, an integer or fixed bytes",
        column.name,
        type_name(column)
    );
    Err(RecordFault::Bad(what))
}

/// `INT64 (TIMESTAMP)`, `list of DOUBLE`, `2 nested lists of BYTE_ARRAY (UTF8)`.
fn type_name(column: &ChosenColumn) -> String {
    let descriptor = &column.descriptor;
    let lists = match descriptor.max_rep_level() {
        0 => String::new(),
        1 => "a list of ".to_owned(),
        levels => format!("{levels} nested lists of "),
    };
    let logical = match descriptor.converted_type() {
        ConvertedType::NONE => String::new(),
        converted => format!(" ({converted})"),
    };
    format!("{lists}{}{logical}", descriptor.physical_type())
}

/// How an integer or fixed bytes are written as an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdForm {
    Signed,
    Unsigned,
    Hex,
    Uuid,
}

impl IdForm {
    pub fn of(column: &ChosenColumn) -> Self {
        let descriptor = &column.descriptor;
        let is_unsigned = matches!(
            descriptor.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        );
        match descriptor.physical_type() {
            Type::FIXED_LEN_BYTE_ARRAY => match descriptor.logical_type_ref() {
                Some(LogicalType::Uuid) => Self::Uuid,
                _ => Self::Hex,
            },
            _ if is_unsigned => Self::Unsigned,
            _ => Self::Signed,
        }
    }

    /// `00ff10…`, for a UUID with its four hyphens.
    pub fn hex(self, bytes: &[u8]) -> String {
        use std::fmt::Write;
        let mut id = String::with_capacity(bytes.len() * 2 + 4);
        for (at, byte) in bytes.iter().enumerate() {
            if self == Self::Uuid && matches!(at, 4 | 6 | 8 | 10) {
                id.push('-');
            }
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    pub fn int32(self, number: i32) -> String {
        match self {
            Self::Unsigned => number.cast_unsigned().to_string(),
            _ => number.to_string(),
        }
    }

    pub fn int64(self, number: i64) -> String {
        match self {
            Self::Unsigned => number.cast_unsigned().to_string(),
            _ => number.to_string(),
        }
    }
}
