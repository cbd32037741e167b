//! Mistakes that the shell makes on purpose.

use super::etcd_audit::AuditSabotage;
use super::etcd_sabotage::WatchSabotage;
use super::etcd_steps::HttpSabotage;
use super::etcd_user_sabotage::UserSabotage;
use super::etcd_v2_sabotage::V2Sabotage;

/// A mistake that the shell makes on purpose, to see that the judges notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Loop is told that a job is durable when the disk is given it.
    PersistedTooEarly,
    /// Terms and votes are not written.
    VotesForgotten,
    /// A sync is answered from what is applied here.
    SyncFromLocalState,
    /// A Front does not know that its member has heard none of the others for a while.
    ContactIgnored,
    /// Some batches of Fronts are refused for want of room while there is room.
    RoomDenied,
    /// A batch of a Front is handed to Loop twice, now and then.
    BatchesDoubled,
    /// A server that proposes a birth takes it for chosen.
    TwoBirths,
    /// A directory that was lost is born again as the member that it was, with its vote.
    OldIdAgain,
    /// A member that is told not to use its directory any more goes on with it.
    CondemnedIgnored,
    /// Loop is not told which clients a Front has heard.
    RenewalsOmitted,
    /// Changes do not reach a Front, now and then, so that watches do not fire.
    ChangesLost,
    /// A Front is given the answers of a hold before the changes that they show.
    AnswersFirst,
    /// A Front is given the changes of a hold twice, now and then.
    ChangesDoubled,
    /// A Front takes each connection for one that has proved to be a user.
    EveryoneIdentified,
    /// A Front has no bound for the commands under way.
    CreditIgnored,
    /// A Front has no bound for the bytes of a request.
    FrameBoundIgnored,
    /// A Front is not told that a client has closed its connection.
    ClosesUntold,
    /// Copies of answers are kept after a Front was given them, so their room is not given back.
    AnswersKept,
    /// Each client that says whether it accepts a server of reads only passes for one that does.
    ReadsDoForAll,
    /// A Front takes each client for one that has seen nothing before.
    SeenZxidForgotten,
    /// Loop is handed the writes of clients that are served reads only.
    WritesWithoutLeader,
    /// Loop takes each other member for one that knows all levels.
    LevelsIgnored,
    /// A build says that it knows all levels, whichever it knows.
    LevelsOverstated,
    /// An EtcdFront answers linearizable reads from the state as it is, as if its member were
    /// alone.
    EtcdReadsUnconfirmed,
    /// Some writes of etcd's clients are answered when they are handed over.
    EtcdAnsweredEarly,
    /// Some writes of etcd's clients are answered, and Loop never gets them.
    EtcdWritesLost,
    /// Every failure of an etcd call is called definite.
    EtcdFatesDefinite,
    /// Loop is not told which calls of etcd's clients are given up, and the clients are.
    EtcdGiveUpsLost,
    /// Pieces of streamed reads of etcd's clients are lost, now and then.
    EtcdPiecesLost,
    /// Streamed reads of etcd's clients end as compacted, now and then, and are not.
    EtcdStreamsCut,
    /// Reads of etcd's clients at a compacted revision are answered.
    EtcdCompactedAnswered,
    /// Answers of Apply do not reach an EtcdFront, now and then.
    EtcdAnswersLost,
    /// A member says that leadership was moved, and moves nothing.
    MovesFeigned,
    /// The hash of a member's keys is wrong now and then.
    HashesForged,
    /// Loop is not told of etcd's leases.
    LeasesUntold,
    /// Loop is told a shorter time to live of each lease than it was granted.
    LeasesShortened,
    /// Some keep-alives of leases are answered, and Loop never gets them.
    KeepAlivesLost,
    /// Puts with a lease that does not exist are answered.
    UnknownLeasesTaken,
    /// Calls of etcd that the store refused for want of space are answered.
    QuotaIgnored,
    /// Conditions of etcd's transactions on the revision at which a key was created are ignored.
    EtcdGuardsIgnored,
    /// Some reads of etcd's clients below a creation revision find nothing.
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
}
