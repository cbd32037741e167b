//! The states of a container, with Ozone's numbers.

/// A state of a container, which determines the allowed operations. Numbers and meaning are Ozone's
/// (`ContainerDataProto.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// May be written and read.
    Open,
    /// Will be closed soon. Writes that were ordered before are still taken; the store itself
    /// cannot tell them from other writes.
    Closing,
    /// Closed without agreement of the other replicas; closed by force later.
    QuasiClosed,
    /// May be read, and its blocks may be deleted.
    Closed,
    /// Something in it is damaged. It may be read, and its blocks may be deleted.
    Unhealthy,
    /// Must not be used at all.
    Invalid,
    /// Is rebuilt from other replicas; may be written and read.
    Recovering,
}

impl State {
    /// All states.
    pub const ALL: [State; 7] = [
        State::Open,
        State::Closing,
        State::QuasiClosed,
        State::Closed,
        State::Unhealthy,
        State::Invalid,
        State::Recovering,
    ];

    /// The state's number in Ozone's protocol, and in our records.
    pub fn number(self) -> u8 {
        match self {
            State::Open => 1,
            State::Closing => 2,
            State::QuasiClosed => 3,
            State::Closed => 4,
            State::Unhealthy => 5,
            State::Invalid => 6,
            State::Recovering => 8,
        }
    }

    /// The state with that number. No container has state 7, deleted.
    pub fn from_number(number: u8) -> Option<State> {
        State::ALL.into_iter().find(|state| state.number() == number)
    }

    /// Whether chunks and blocks may be written.
    pub fn takes_writes(self) -> bool {
        matches!(self, State::Open | State::Closing | State::Recovering)
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            State::Open => "open",
            State::Closing => "closing",
            State::QuasiClosed => "quasi-closed",
            State::Closed => "closed",
            State::Unhealthy => "unhealthy",
            State::Invalid => "invalid",
            State::Recovering => "recovering",
        })
    }
}
