//! The lines of the audit log about the calls of etcd clients, and the check of these lines.

use std::collections::BTreeMap;

use workload::etcd::history::CallId;

/// The lines that members have logged, by call.
#[derive(Default)]
pub struct AuditLines(BTreeMap<CallId, Vec<String>>);

/// The result that a line states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// The call took effect.
    Success,
    /// The call failed.
    Failure,
    /// The member does not know the call's fate.
    Invoked,
}

impl AuditLines {
    /// A member logs this line about a call.
    pub fn on_line(&mut self, call: CallId, line: String) {
        self.0.entry(call).or_default().push(line);
    }

    /// The result that a call's line states; `None` if the call has no line.
    ///
    /// # Errors
    /// The call has two lines, or the line states no result.
    pub fn logged(&self, call: CallId) -> Result<Option<Logged>, String> {
        let lines = self.0.get(&call).map(Vec::as_slice).unwrap_or_default();
        let [line] = lines else {
            return if lines.is_empty() { Ok(None) } else { Err(format!("{call:?}: {lines:?}")) };
        };
        let (_, result) = line.split_once("\tresult=").ok_or_else(|| line.clone())?;
        match result.split_once('\t').map_or(result, |(result, _)| result) {
            "success" => Ok(Some(Logged::Success)),
            "failure" => Ok(Some(Logged::Failure)),
            "invoked" => Ok(Some(Logged::Invoked)),
            _ => Err(line.clone()),
        }
    }

    /// Checks the line about a call. `changes`: whether the call asks for a change. `is_done`:
    /// whether it took effect; `None` if the judge does not know. `answered`: whether its client
    /// learned that it took effect; `None` without an answer, or if the answer leaves it open.
    ///
    /// # Errors
    /// The line contradicts these facts.
    pub fn check(
        &self,
        call: CallId,
        changes: bool,
        is_done: Option<bool>,
        answered: Option<bool>,
    ) -> Result<(), String> {
        let logged = self.logged(call)?;
        let is_right = match (answered, logged) {
            (_, logged) if !changes => logged.is_none(),
            (Some(true), logged) => logged == Some(Logged::Success),
            (Some(false), logged) => logged == Some(Logged::Failure),
            (None, Some(Logged::Success)) => is_done != Some(false),
            (None, Some(Logged::Failure)) => is_done != Some(true),
            (None, Some(Logged::Invoked) | None) => true,
        };
        if is_right {
            return Ok(());
        }
        let lines = self.0.get(&call);
        Err(format!(
            "{call:?} was answered with {answered:?}, done: {is_done:?}, logged: {lines:?}"
        ))
    }
}
