//! JSON in the layout of ZooKeeper's AdminServer: keys in the order in which they were added, and
//! the line breaks of Jackson's indented output (`JsonOutputter`), because scripts parse it line by
//! line.

use std::fmt::Write;

use zk::four_letter::Number;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    /// An object: its keys and values, in the order in which they are printed.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A whole number; one beyond `i64` becomes `i64::MAX`.
    pub fn whole(number: impl TryInto<i64>) -> Json {
        Json::Number(Number::Whole(number.try_into().unwrap_or(i64::MAX)))
    }

    /// An object with these keys and values.
    pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
        let own = |(key, value): (&str, Json)| (key.to_string(), value);
        Json::Object(members.into_iter().map(own).collect())
    }

    /// The value as text, indented.
    pub fn print(&self) -> String {
        let mut text = String::new();
        self.write(0, &mut text);
        text
    }

    /// Appends the value at an indentation of `depth` levels. Only objects begin new lines. An
    /// array adds none, so it stays on one line unless it has objects.
    fn write(&self, depth: usize, text: &mut String) {
        match self {
            Json::Null => text.push_str("null"),
            Json::Bool(value) => {
                let _ = write!(text, "{value}");
            }
            Json::Number(number) => {
                let _ = write!(text, "{number}");
            }
            Json::Text(value) => text.push_str(&quoted(value)),
            Json::List(values) => {
                text.push('[');
                for (at, value) in values.iter().enumerate() {
                    text.push_str(if at == 0 { " " } else { ", " });
                    value.write(depth, text);
                }
                text.push_str(" ]");
            }
            Json::Object(members) if members.is_empty() => text.push_str("{ }"),
            Json::Object(members) => {
                text.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    let _ = write!(text, "{comma}\n{:1$}{2} : ", "", 2 * (depth + 1), quoted(key));
                    value.write(depth + 1, text);
                }
                let _ = write!(text, "\n{:1$}}}", "", 2 * depth);
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text has no value that JSON has not")
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_string())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

#[cfg(test)]
mod tests;
