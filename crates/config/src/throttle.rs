//! The settings that throttle connect requests and large requests:
//! `zookeeper.connection_throttle_*` and `zookeeper.largeRequest*` (`BlueThrottle`,
//! `ZooKeeperServer`, 3.9.5).

use member::throttle::{ConnectionThrottleConfig, LargeRequestsConfig, ThrottleConfig, Weights};

use super::report::{Place, Report};
use super::values::{Fate, boolean, number, number_in};

/// The settings of throttling that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct ThrottleDraft {
    pub connections: ConnectionThrottleConfig,
    pub large_requests: LargeRequestsConfig,
    pub is_weighted: bool,
    pub weights: AskedWeights,
    /// The place of the last key that set a weight.
    pub weights_place: Option<Place>,
}

/// How many tokens of the connection throttle each kind of session takes, as configured and not
/// checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedWeights {
    pub global: i64,
    pub local: i64,
    pub renew: i64,
}

impl Default for AskedWeights {
    fn default() -> Self {
        AskedWeights { global: 3, local: 1, renew: 2 }
    }
}

impl ThrottleDraft {
    /// Applies the property `zookeeper.<name>`; `None` if it is not about throttling.
    pub fn apply(
        &mut self,
        place: &Place,
        name: &str,
        value: &str,
    ) -> Option<Result<Fate, String>> {
        let taken = match name.strip_prefix("connection_throttle_") {
            Some(name) => self.apply_connection(place, name, value)?,
            None if name == "largeRequestThreshold" => return Some(self.large_threshold(value)),
            None if name == "largeRequestMaxBytes" => return Some(self.large_bytes_max(value)),
            None => return None,
        };
        Some(taken.map(|()| Fate::Taken))
    }

    fn apply_connection(
        &mut self,
        place: &Place,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>> {
        let connections = &mut self.connections;
        let weight = || Some(place.clone());
        Some(match name {
            "tokens" => set(&mut connections.tokens_max, number_in(value, 0, i32::MAX)),
            "fill_time" => set(&mut connections.fill_ms, number_in(value, 1, i32::MAX)),
            "fill_count" => set(&mut connections.fill_count, number_in(value, 0, i32::MAX)),
            "freeze_time" => {
                let freeze_ms =
                    number_in(value, -1, i32::MAX).map(|ms: i64| u32::try_from(ms).ok());
                set(&mut connections.freeze_ms, freeze_ms)
            }
            "drop_increase" => set(&mut connections.drop_increase, ratio(value)),
            "drop_decrease" => set(&mut connections.drop_decrease, ratio(value)),
            "decrease_ratio" => set(&mut connections.decrease_ratio, ratio(value)),
            "weight_enabled" => set(&mut self.is_weighted, boolean(value)),
            "global_session_weight" => {
                self.weights_place = weight();
                set(&mut self.weights.global, number(value))
            }
            "local_session_weight" => {
                self.weights_place = weight();
                set(&mut self.weights.local, number(value))
            }
            "renew_session_weight" => {
                self.weights_place = weight();
                set(&mut self.weights.renew, number(value))
            }
            _ => return None,
        })
    }

    /// Applies `largeRequestThreshold` (`ZooKeeperServer.setLargeRequestThreshold`).
    fn large_threshold(&mut self, value: &str) -> Result<Fate, String> {
        let threshold = number(value)?;
        self.large_requests.threshold = u32::try_from(threshold).ok().filter(|&bytes| bytes > 0);
        Ok(match threshold {
            -1 | 1.. => Fate::Taken,
            _ => {
                Fate::Differs(format!("{threshold} is neither above 0 nor -1; no request is large"))
            }
        })
    }

    /// Applies `largeRequestMaxBytes` (`ZooKeeperServer.setLargeRequestMaxBytes`).
    fn large_bytes_max(&mut self, value: &str) -> Result<Fate, String> {
        let bytes = number(value)?;
        match u64::try_from(bytes).ok().filter(|&bytes| bytes > 0) {
            Some(bytes) => self.large_requests.bytes_max = bytes,
            None => {
                let stays = self.large_requests.bytes_max;
                let message = format!("{bytes} is not above 0; it stays {stays}");
                return Ok(Fate::Differs(message));
            }
        }
        Ok(Fate::Taken)
    }

    /// Combines the settings. Replaces impossible weights by the defaults, with a warning, as
    /// `BlueThrottle` does.
    pub fn settle(self, report: &mut Report) -> ThrottleConfig {
        let place = self.weights_place.unwrap_or_else(|| report.whole());
        let asked = self.weights;
        let local = if asked.local > 0 { asked.local } else { 1 };
        let mut weigh = |key: &str, weight: i64, least: i64, default: i64| {
            let settled = match weight {
                ..=0 => default,
                weight => weight.max(least),
            };
            if settled != weight {
                let message =
                    format!("{weight} cannot be the weight of a session; {settled} is used");
                report.warn(&place, key, message);
            }
            u32::try_from(settled).unwrap_or(i32::MAX.unsigned_abs())
        };
        weigh("connection_throttle_local_session_weight", asked.local, 1, 1);
        let weights = Weights {
            new_session: weigh("connection_throttle_global_session_weight", asked.global, local, 3),
            renewed_session: weigh(
                "connection_throttle_renew_session_weight",
                asked.renew,
                local,
                2,
            ),
        };
        let weights = self.is_weighted.then_some(weights);
        ThrottleConfig {
            connections: ConnectionThrottleConfig { weights, ..self.connections },
            large_requests: self.large_requests,
        }
    }
}

fn set<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *field = value)
}

/// Parses a number from 0 to 1.
pub(super) fn ratio(value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("{value:?} is not a number from 0 to 1"))
}
