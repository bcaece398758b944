//! Values of axes, as they are shown.

use serde_json::Value;
use weft_report::Cell;

/// A value as people write it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as a table's cell.
pub fn cell(value: &Value) -> Cell {
    value.as_f64().map_or_else(|| Cell::Text(plain(value)), Cell::Number)
}
