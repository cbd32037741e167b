//! The lines of the audit log about the calls of etcd's clients.

use std::collections::BTreeMap;

use workload::etcd::history::CallId;

/// The lines that members have logged.
#[derive(Default)]
pub struct AuditLines(BTreeMap<CallId, Vec<String>>);

/// The result that a line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The call took effect.
    Success,
    /// The call failed.
    Failure,
    /// The member does not know.
    Invoked,
}

impl AuditLines {
    /// A member logs this line about a call.
    pub fn on_line(&mut self, call: CallId, line: String) {
        self.0.entry(call).or_default().push(line);
    }

    /// The result of a call by its line; `None` if it has none.
    ///
    /// # Errors
    /// It has two lines, or one that names no result.
    pub fn told(&self, call: CallId) -> Result<Option<Told>, String> {
        let lines = self.0.get(&call).map(Vec::as_slice).unwrap_or_default();
        let [line] = lines else {
            return if lines.is_empty() { Ok(None) } else { Err(format!("{call:?}: {lines:?}")) };
        };
        let (_, result) = line.split_once("\tresult=").ok_or_else(|| line.clone())?;
        match result.split_once('\t').map_or(result, |(result, _)| result) {
            "success" => Ok(Some(Told::Success)),
            "failure" => Ok(Some(Told::Failure)),
            "invoked" => Ok(Some(Told::Invoked)),
            _ => Err(line.clone()),
        }
    }

    /// Checks the line about a call. `changes`: whether the call asks for a change. `is_done`:
    /// whether it took effect. `answered`: whether its client was told that it did; `None` if the
    /// client was told nothing, or that nobody knows.
    ///
    /// # Errors
    /// No correct member logs that.
    pub fn check(
        &self,
        call: CallId,
        changes: bool,
        is_done: bool,
        answered: Option<bool>,
    ) -> Result<(), String> {
        let told = self.told(call)?;
        let is_right = match (answered, told) {
            (_, Some(_)) if !changes => false,
            (Some(true), told) => told == Some(Told::Success).filter(|_| changes),
            (Some(false), told) => told != Some(Told::Success),
            (None, told) => told != Some(Told::Failure) || !is_done,
        };
        if is_right {
            return Ok(());
        }
        let line = self.0.get(&call);
        Err(format!("{call:?} was answered with {answered:?}, done: {is_done}, logged: {line:?}"))
    }
}
