//! Writes log lines as JSON objects with the keys of etcd's log lines, which log collectors expect
//! (zap's `NewProductionEncoderConfig`, changed as in etcd's `logutil.DefaultZapLoggerConfig`).

use std::fmt::{self, Write};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Formats each event as a JSON object.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        };
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let caller = caller(metadata.file().unwrap_or_default());
        let line = metadata.line().unwrap_or_default();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = Value::from(fields.message);
        write!(
            writer,
            "{{\"level\":\"{level}\",\"ts\":\"{time}\",\"caller\":\"{caller}:{line}\",\"msg\":{message}"
        )?;
        for (name, value) in fields.others {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writeln!(writer, "}}")
    }
}

/// The last folder of a path and the file name, as zap shows them.
fn caller(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    let second = slashes.nth(1);
    second.map_or(path, |at| &path[at + 1..])
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_string(),
            _ => self.add(field, value.into()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A value that cannot be formatted becomes an empty string.
        let _ = write!(text, "{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, text.into()),
        }
    }
}
