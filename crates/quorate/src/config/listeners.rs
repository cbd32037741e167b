//! What ZooKeeper's clients may do at their ports.

use std::collections::BTreeSet;

/// The four-letter words that are answered (`4lw.commands.whitelist`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FourLetterWords {
    /// `*`.
    All,
    /// These and, as in `FourLetterCommands`, always `srvr`.
    Listed(BTreeSet<String>),
}

impl FourLetterWords {
    /// `FourLetterCommands.isEnabled`: a `*` among the words allows all.
    pub(super) fn of(words: BTreeSet<String>) -> FourLetterWords {
        if words.contains("*") { FourLetterWords::All } else { FourLetterWords::Listed(words) }
    }

    /// The words that may be executed; `*` is all.
    pub fn allowed(&self) -> Vec<String> {
        match self {
            FourLetterWords::All => vec!["*".to_string()],
            FourLetterWords::Listed(words) => {
                let srvr = "srvr".to_string();
                words.iter().filter(|word| **word != srvr).cloned().chain([srvr.clone()]).collect()
            }
        }
    }
}

/// The allowed words: read-only mode adds `isro`, which its clients ask with
/// (`FourLetterCommands.isEnabled`).
pub(super) fn settle_words(
    words: Option<FourLetterWords>,
    read_only_mode: bool,
) -> FourLetterWords {
    match words.unwrap_or(FourLetterWords::Listed(BTreeSet::new())) {
        FourLetterWords::All => FourLetterWords::All,
        FourLetterWords::Listed(mut words) => {
            words.insert("srvr".to_string());
            if read_only_mode {
                words.insert("isro".to_string());
            }
            FourLetterWords::Listed(words)
        }
    }
}
