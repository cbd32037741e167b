//! Writes the lines of the program's log about what Loop did.

use member::{Difference, Leadership, LoopOutput};

/// Logs leadership, fetched snapshots, states that differ, the level, compaction and a full disk.
pub fn announce(output: &LoopOutput) {
    for leadership in &output.leadership {
        match leadership {
            Leadership::Own(term) => tracing::info!("this server leads, in term {term}"),
            Leadership::Other(term, _, Some(server)) => {
                tracing::info!("server {server} leads, in term {term}");
            }
            Leadership::Other(term, member, None) => {
                tracing::info!("member {:016x} leads, in term {term}", member.0);
            }
            Leadership::Nobody => tracing::warn!("no server is known to lead"),
        }
    }
    for fetching in &output.fetching {
        let index = fetching.index;
        match fetching.server {
            Some(server) => tracing::info!(
                "this server is too far behind the leader's log: it fetches the snapshot at log \
                 index \
                 {index} from server {server}"
            ),
            None => tracing::info!(
                "this server is too far behind the leader's log: it fetches the snapshot at log \
                 index \
                 {index} from member {:016x}",
                fetching.holder.0
            ),
        }
    }
    for difference in &output.differences {
        match difference {
            Difference::Outside { member, index } => tracing::error!(
                "the state of member {:x} differs from that of the majority at log index {index}",
                member.0
            ),
            Difference::NoMajority { index } => tracing::error!(
                "the members' states differ at log index {index}, and no majority has the same: \
                 see docs/operating.md, \"States that differ\""
            ),
        }
    }
    if let Some(stated) = &output.raised {
        tracing::info!(
            "the level is {}: it needs version {} or later",
            stated.level,
            stated.version
        );
    }
    if let Some(revision) = output.compacting {
        tracing::info!("auto-compaction: etcd's keys are compacted to revision {revision}");
    }
    match output.disk_is_full {
        Some(true) => {
            tracing::error!("no room for the log or the next snapshot: writes are refused")
        }
        Some(false) => tracing::info!("there is room again: writes are taken"),
        None => {}
    }
}
