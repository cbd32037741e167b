//! Deliberate mistakes of the shell, which show that the judges notice mistakes.

use super::change_sabotage::ChangeSabotage;
use super::etcd_audit::AuditSabotage;
use super::etcd_sabotage::WatchSabotage;
use super::etcd_steps::HttpSabotage;
use super::etcd_user_sabotage::UserSabotage;
use super::etcd_v2_sabotage::V2Sabotage;

/// A deliberate mistake of the shell, which the judges must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Loop believes that a job is durable as soon as the disk thread gets it.
    PersistedTooEarly,
    /// Terms and votes are not written to the log.
    VotesForgotten,
    /// A client's sync is answered at the local state, without the leader.
    SyncFromLocalState,
    /// A Front does not know that its member has had no contact for a while.
    ContactIgnored,
    /// Some batches of Fronts are refused for want of disk space although there is room.
    RoomDenied,
    /// Some batches of a Front are handed to Loop twice.
    BatchesDoubled,
    /// A server takes a birth for decided as soon as it proposes it.
    TwoBirths,
    /// A lost directory is born again with its old member id and vote.
    OldIdAgain,
    /// A member that should condemn its directory continues to use it.
    CondemnedIgnored,
    /// Loop does not learn which clients a Front has heard.
    RenewalsOmitted,
    /// Some changes do not reach a Front, so that watches do not fire.
    ChangesLost,
    /// A Front gets the answers of a hold before the changes that they show.
    AnswersFirst,
    /// A Front sometimes gets the changes of a hold twice.
    ChangesDoubled,
    /// A Front believes that every connection has authenticated as a user.
    EveryoneIdentified,
    /// A Front has no limit of unanswered commands.
    CreditIgnored,
    /// A Front has no limit of the size of a request.
    FrameBoundIgnored,
    /// A Front does not learn that a client has closed its connection.
    ClosesUntold,
    /// Copies of answers are kept after a Front got them, so that their bytes stay counted.
    AnswersKept,
    /// Every client that sends the flag for read-only mode is taken to accept it.
    ReadsDoForAll,
    /// A Front forgets the newest zxid that each client has seen.
    SeenZxidForgotten,
    /// Loop gets the writes of clients that are in read-only mode.
    WritesWithoutLeader,
    /// Loop believes that every other member knows all levels.
    LevelsIgnored,
    /// A build claims to know all levels.
    LevelsOverstated,
    /// An etcd Front answers linearizable reads from the local state, as if its member were alone.
    EtcdReadsUnconfirmed,
    /// Some writes of etcd clients are answered when they are handed to Loop.
    EtcdAnsweredEarly,
    /// Some writes of etcd clients are answered, and Loop never gets them.
    EtcdWritesLost,
    /// Every failed etcd call is reported as certainly without effect.
    EtcdFatesDefinite,
    /// Clients learn that their etcd calls were given up, and Loop does not.
    EtcdGiveUpsLost,
    /// Some pieces of streamed etcd reads are lost.
    EtcdPiecesLost,
    /// Some streamed etcd reads end as compacted although they are not.
    EtcdStreamsCut,
    /// etcd reads at a compacted revision are answered.
    EtcdCompactedAnswered,
    /// Some answers of Apply do not reach an etcd Front.
    EtcdAnswersLost,
    /// A member claims that leadership was moved, and moves nothing.
    MovesFeigned,
    /// A member's hash of its keys is sometimes wrong.
    HashesForged,
    /// Loop does not learn of etcd's leases.
    LeasesUntold,
    /// Loop believes that each lease has a shorter time to live than it was granted.
    LeasesShortened,
    /// Some keep-alives of leases are answered, and Loop never gets them.
    KeepAlivesLost,
    /// Puts with a lease that does not exist are answered with success.
    UnknownLeasesTaken,
    /// etcd calls that the store refused for want of space are answered with success.
    QuotaIgnored,
    /// etcd transactions ignore conditions on a key's creation revision.
    EtcdGuardsIgnored,
    /// Some etcd reads below a creation revision find nothing.
    EtcdNeighboursHidden,
    /// Watches of etcd's clients are served wrongly.
    EtcdWatches(WatchSabotage),
    /// Users of etcd are served wrongly.
    EtcdUsers(UserSabotage),
    /// The audit log of etcd's clients is wrong.
    EtcdAudit(AuditSabotage),
    /// Requests of HTTP about health, members and users are served wrongly.
    EtcdHttp(HttpSabotage),
    /// Clients of etcd v2 are served wrongly.
    EtcdV2(V2Sabotage),
    /// Changes of the members are made or answered wrongly.
    Changes(ChangeSabotage),
}
