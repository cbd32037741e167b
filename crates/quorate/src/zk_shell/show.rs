//! How things are shown: stats, data, ACLs, times and events. Pure.

use machine::{AclEntry, Stat};

use super::command::PERMISSIONS;
use crate::zk_client::Event;

/// Bytes of one line of a dump.
const DUMP_BYTES: usize = 16;

/// Data as text if it is printable, else as a dump under its length.
pub fn data(data: Option<&[u8]>) -> String {
    let Some(bytes) = data else { return "null\n".to_string() };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(is_printable) => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{end}")
        }
        _ => dump(bytes),
    }
}

fn is_printable(character: char) -> bool {
    !character.is_control() || matches!(character, '\n' | '\t' | '\r')
}

/// Length, then offset, bytes and characters of each line.
fn dump(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes\n", bytes.len());
    for (index, line) in bytes.chunks(DUMP_BYTES).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown: String = line
            .iter()
            .map(|&byte| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '.' })
            .collect();
        let width = DUMP_BYTES * 3 - 1;
        text += &format!("{:08x}  {:width$}  {shown}\n", index * DUMP_BYTES, hex.join(" "));
    }
    text
}

/// The lines of a stat, with the names that `zkCli.sh` gives them.
pub fn stat(stat: &Stat) -> String {
    let lines = [
        ("cZxid", format!("{:#x}", stat.czxid)),
        ("ctime", time(stat.ctime)),
        ("mZxid", format!("{:#x}", stat.mzxid)),
        ("mtime", time(stat.mtime)),
        ("pZxid", format!("{:#x}", stat.pzxid)),
        ("cversion", stat.cversion.to_string()),
        ("dataVersion", stat.version.to_string()),
        ("aclVersion", stat.aversion.to_string()),
        ("ephemeralOwner", format!("{:#x}", stat.ephemeral_owner)),
        ("dataLength", stat.data_bytes.to_string()),
        ("numChildren", stat.child_count.to_string()),
    ];
    lines.iter().map(|(name, value)| format!("{name:14} = {value}\n")).collect()
}

/// One line for each entry, as `setAcl` takes it.
pub fn acl(entries: &[AclEntry]) -> String {
    let line = |entry: &AclEntry| {
        let letters: String = PERMISSIONS
            .iter()
            .filter(|(_, bit)| entry.perms & bit != 0)
            .map(|(letter, _)| *letter)
            .collect();
        format!("{}:{}:{letters}\n", entry.scheme, entry.id)
    };
    entries.iter().map(line).collect()
}

/// What happened to which znode.
pub fn event(event: &Event) -> String {
    let what = match event.kind {
        1 => "created",
        2 => "deleted",
        3 => "data changed",
        4 => "children changed",
        _ => "an unknown event",
    };
    format!("{}: {what}", event.path)
}

/// Ms since 1970 as UTC, by the calendar of the proleptic Gregorian years (Howard Hinnant,
/// `chrono`-Compatible Low-Level Date Algorithms, `civil_from_days`).
pub fn time(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, ms) = (in_day / 1_000 % 60, in_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests;
