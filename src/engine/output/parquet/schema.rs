//! The type of each column in a Parquet file.

use crate::output::table::{COLUMNS, Column, ComparedAs, Row};
use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::Type;
use std::sync::Arc;

/// How the values of a column are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnStorage {
    Text,
    /// Four bytes, with a sign.
    Small,
    /// Eight bytes, with a sign.
    Large,
    /// µs since 1970, as the stamp has them: no zone.
    Time,
}

impl ColumnStorage {
    pub(super) fn of_column(column: Column) -> ColumnStorage {
        match column.compares_as() {
            _ if column == Column::time => ColumnStorage::Time,
            ComparedAs::Number if Row::is_small_number(column) => ColumnStorage::Small,
            ComparedAs::Number => ColumnStorage::Large,
            _ => ColumnStorage::Text,
        }
    }

    pub(super) fn physical_type(self) -> Physical {
        match self {
            ColumnStorage::Text => Physical::BYTE_ARRAY,
            ColumnStorage::Small => Physical::INT32,
            ColumnStorage::Large | ColumnStorage::Time => Physical::INT64,
        }
    }

    fn logical_type(self) -> Option<LogicalType> {
        match self {
            ColumnStorage::Text => Some(LogicalType::String),
            ColumnStorage::Small | ColumnStorage::Large => None,
            ColumnStorage::Time => Some(LogicalType::timestamp(false, TimeUnit::MICROS)),
        }
    }
}

/// The columns of the call table: all may be null.
pub(super) fn call_schema() -> Result<Type, ParquetError> {
    let field = |&column: &Column| {
        let is = ColumnStorage::of_column(column);
        let field = Type::primitive_type_builder(COLUMNS[column as usize], is.physical_type())
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(is.logical_type());
        field.build().map(Arc::new)
    };
    let fields: Result<Vec<_>, _> = Column::ALL.iter().map(field).collect();
    Type::group_type_builder("calls")
        .with_fields(fields?)
        .build()
}
