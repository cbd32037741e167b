//! The state of a container, as Ozone numbers it.

/// What may be done with a container. Numbers and meaning are Ozone's (`ContainerDataProto.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Written and read.
    Open,
    /// Takes no new writes but those that were ordered before; becomes closed.
    Closing,
    /// Closed without the others' agreement; becomes closed by force.
    QuasiClosed,
    /// Read, and deleted from.
    Closed,
    /// Something in it is damaged: read, and deleted.
    Unhealthy,
    /// Not to be used at all.
    Invalid,
    /// Being rebuilt from others: written and read.
    Recovering,
}

impl State {
    /// All of them.
    pub const ALL: [State; 7] = [
        State::Open,
        State::Closing,
        State::QuasiClosed,
        State::Closed,
        State::Unhealthy,
        State::Invalid,
        State::Recovering,
    ];

    /// Its number in Ozone's protocol, which is that in our records, too.
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

    /// The state of that number. 7, deleted, is none that a container has.
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
