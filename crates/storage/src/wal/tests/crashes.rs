//! Cuts the power, kills the process or fails a sync at every operation of a random history of the
//! log, and checks what recovery returns.
//!
//! The model is the list of states that the log passed through, one for each frame. A recovered
//! state must be one of these, and none older than the last completed sync.

use super::*;
use crate::fault_disk::Chance;

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    hard_state: HardState,
    membership: Membership,
    snapshot: SnapshotPoint,
    entries: Vec<LogEntry>,
}

impl State {
    fn last(&self) -> u64 {
        self.entries.last().map_or(self.snapshot.index, |it| it.index)
    }

    /// The state as recovery returns it, with a usable commit index.
    fn usable(mut self) -> State {
        let commit = self.hard_state.commit.max(self.snapshot.index);
        self.hard_state.commit = commit.min(self.last());
        self
    }
}

impl From<Recovered> for State {
    fn from(recovered: Recovered) -> State {
        State {
            hard_state: recovered.hard_state,
            membership: recovered.membership,
            snapshot: recovered.snapshot,
            entries: recovered.entries,
        }
    }
}

/// Runs random operations on a log, and remembers which states recovery may return.
struct Player {
    disk: FaultDisk,
    chance: Chance,
    /// Whether segments and batches are larger than usual, as they are in every second history.
    is_large: bool,
    states: Vec<State>,
    /// Position in `states` of the last state known to be durable.
    synced: usize,
}

impl Player {
    fn new(seed: u64) -> Player {
        let disk = FaultDisk::new(seed);
        born(&disk);
        Player {
            disk,
            chance: Chance::new(seed ^ 0xabcd),
            is_large: seed % 2 == 1,
            states: vec![State {
                hard_state: hard(1, 0, 1),
                membership: voters(&[7]),
                snapshot: SnapshotPoint { index: 1, term: 1 },
                entries: Vec::new(),
            }],
            synced: 0,
        }
    }

    fn now(&self) -> State {
        self.states.last().expect("there is always a state").clone()
    }

    /// Opens the log and checks what was recovered.
    fn open(&mut self) -> Result<Wal<FaultDisk>, StorageError> {
        let mut options = options();
        if self.is_large {
            options.first_segment_bytes = 4 * SEGMENT_BYTES_MIN;
        }
        let (wal, recovered) = Wal::open(self.disk.clone(), options)?;
        let found = State::from(recovered);
        let allowed = &self.states[self.synced..];
        if !allowed.iter().any(|state| state.clone().usable() == found) {
            return Err(StorageError::corrupt("the model", 0, format!("recovered {found:?}")));
        }
        self.states = vec![found];
        self.synced = 0;
        Ok(wal)
    }

    fn all_synced(&mut self) {
        self.synced = self.states.len() - 1;
    }

    /// One random operation.
    fn step(&mut self, wal: &mut Wal<FaultDisk>) -> Result<(), StorageError> {
        match self.chance.below(16) {
            0..=8 => self.append(wal),
            9 => self.conflict(wal),
            10 | 11 => self.release(wal),
            12 => self.install(wal),
            13 => {
                wal.idle_mark()?;
                self.all_synced();
                Ok(())
            }
            _ => self.make_spare(wal),
        }
    }

    fn append(&mut self, wal: &mut Wal<FaultDisk>) -> Result<(), StorageError> {
        let first = self.now().last() + 1;
        self.append_from(wal, first)
    }

    fn conflict(&mut self, wal: &mut Wal<FaultDisk>) -> Result<(), StorageError> {
        let now = self.now();
        let count = now.entries.len() as u64;
        let first = now.last() + 1 - self.chance.below(count + 1);
        self.append_from(wal, first)
    }

    fn append_from(&mut self, wal: &mut Wal<FaultDisk>, first: u64) -> Result<(), StorageError> {
        let mut state = self.now();
        let mut hard_state = None;
        let count = self.chance.below(5);
        if self.chance.below(3) == 0 {
            let term = state.hard_state.term + self.chance.below(2);
            let told = hard(term, self.chance.below(4), state.last());
            hard_state = Some(told);
            // A commit index that covers entries of the batch is written behind them.
            state.hard_state = match count {
                0 => told,
                _ => HardState { commit: told.commit.min(first - 1), ..told },
            };
            self.states.push(state.clone());
        }
        let mut membership = None;
        if self.chance.below(8) == 0 {
            state.membership = voters(&[self.chance.below(9), self.chance.below(9)]);
            membership = Some(state.membership.clone());
            self.states.push(state.clone());
        }
        // The term makes two attempts at one index differ.
        let term = state.hard_state.term * 1000 + self.chance.below(1000);
        let mut entries = Vec::new();
        for index in first..first + count {
            let bytes = match self.chance.below(6) {
                0 => self.chance.below(40_000),
                1 | 2 if self.is_large => 30_000,
                _ => self.chance.below(600),
            };
            let entry = entry(index, term, bytes as usize);
            state.entries.retain(|it| it.index < index);
            state.entries.push(entry.clone());
            self.states.push(state.clone());
            entries.push(entry);
        }
        if let Some(told) = hard_state.filter(|told| *told != state.hard_state) {
            state.hard_state = told;
            self.states.push(state.clone());
        }
        wal.append(&entries, hard_state, membership)?;
        // Records that are not committed now are part of the next commit.
        let is_held = matches!((self.chance.below(6), self.is_large), (0 | 1, _) | (2..=4, true));
        if !is_held {
            let committed = wal.commit()?;
            assert_eq!(committed.durable_index, state.last());
            self.all_synced();
        }
        Ok(())
    }

    fn release(&mut self, wal: &mut Wal<FaultDisk>) -> Result<(), StorageError> {
        let mut state = self.now();
        let count = state.entries.len() as u64;
        let Some(count) = self.chance.below(count + 1).checked_sub(1) else {
            return Ok(());
        };
        let last = &state.entries[count as usize];
        state.snapshot = SnapshotPoint { index: last.index, term: last.term };
        state.entries.drain(..=count as usize);
        self.states.push(state.clone());
        wal.release(state.snapshot)?;
        self.all_synced();
        Ok(())
    }

    fn install(&mut self, wal: &mut Wal<FaultDisk>) -> Result<(), StorageError> {
        let mut state = self.now();
        let index = state.last() + self.chance.below(5);
        if index == state.snapshot.index {
            return Ok(());
        }
        state.snapshot = SnapshotPoint { index, term: 5 };
        state.entries.clear();
        state.membership = voters(&[index]);
        state.hard_state.commit = state.hard_state.commit.max(index);
        self.states.push(state.clone());
        wal.install_snapshot(state.snapshot, state.membership)?;
        self.all_synced();
        Ok(())
    }

    fn make_spare(&mut self, wal: &mut Wal<FaultDisk>) -> Result<(), StorageError> {
        let Some(mut job) = wal.spare_wanted() else {
            return Ok(());
        };
        let disk = self.disk.clone();
        loop {
            match job.step(&disk) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    wal.abandon_spare(job);
                    return Err(error);
                }
            }
        }
        wal.adopt_spare(job);
        Ok(())
    }

    /// Opens the log and runs `steps` operations, or until one fails.
    fn live(&mut self, steps: u64) -> Result<(), StorageError> {
        let mut wal = self.open()?;
        for _ in 0..steps {
            self.step(&mut wal)?;
        }
        Ok(())
    }

    fn plan(&self, plan: FaultPlan) {
        self.disk.set_plan(plan);
    }

    fn stop_in(&self, ops: u64) {
        self.plan(FaultPlan { stop_at: Some(self.disk.ops() + ops), ..FaultPlan::default() });
    }

    /// The log must open, and must hold what was durable.
    fn must_open(&mut self, about: &str) {
        if let Err(error) = self.open() {
            panic!("{about}: {error}");
        }
    }
}

/// Number of disk operations in the first `steps` steps of the history of `seed`.
fn ops_of(seed: u64, steps: u64) -> u64 {
    let mut player = Player::new(seed);
    let before = player.disk.ops();
    player.live(steps).expect("nothing fails");
    player.disk.ops() - before
}

#[test]
fn a_crash_at_every_operation_loses_nothing_that_was_synced() {
    let steps = 30;
    for seed in 0..8 {
        for stop in 0..ops_of(seed, steps) {
            let about = format!("seed {seed}, stop {stop}");
            let mut player = Player::new(seed);
            player.stop_in(stop);
            drop(player.live(steps));
            player.disk.crash();
            player.must_open(&about);
        }
    }
}

#[test]
fn crashes_during_recovery_lose_nothing_however_often() {
    for seed in 0..250 {
        let mut player = Player::new(seed);
        for round in 0..6 {
            let about = format!("seed {seed}, round {round}");
            let in_life = player.chance.below(120);
            player.stop_in(in_life);
            drop(player.live(40));
            match player.chance.below(3) {
                0 => player.disk.kill(),
                _ => player.disk.crash(),
            }
            for _ in 0..player.chance.below(4) {
                let in_recovery = player.chance.below(18);
                player.stop_in(in_recovery);
                if let Err(error) = player.open() {
                    assert!(matches!(error, StorageError::Io { .. }), "{about}: {error}");
                }
                match player.chance.below(3) {
                    0 => player.disk.kill(),
                    _ => player.disk.crash(),
                }
            }
            player.must_open(&about);
        }
    }
}

#[test]
fn what_a_start_after_a_kill_hands_out_survives_the_next_power_cut() {
    for seed in 0..300 {
        let mut player = Player::new(seed);
        player.live(20).expect("nothing fails");
        player.disk.kill();
        // Opening makes the recovered state the model's only one.
        player.must_open(&format!("seed {seed} after the kill"));
        player.disk.crash();
        player.must_open(&format!("seed {seed} after the power cut"));
    }
}

#[test]
fn a_start_after_a_failed_sync_hands_out_only_what_it_made_durable() {
    for seed in 0..24 {
        for nth in 0..40 {
            let about = format!("seed {seed}, sync {nth}");
            let mut player = Player::new(seed);
            player.plan(FaultPlan { fail: vec![(Operation::Sync, nth)], ..FaultPlan::default() });
            drop(player.live(25));
            player.disk.kill();
            player.must_open(&about);
            player.disk.crash();
            player.must_open(&about);
        }
    }
}

#[test]
fn what_was_carried_survives_a_start_whose_sync_failed() {
    // After a failed sync the kernel shows a head that is not on the disk and that no later sync
    // writes. The next start must not give up the previous segment because of that head.
    let expected: Vec<LogEntry> = (2..6).map(|index| entry(index, 1, 600)).collect();
    for (nth, seed) in (0..6).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        wal.append(&expected, None, None).expect("appends");
        wal.commit().expect("commits");
        drop(wal);
        disk.set_plan(FaultPlan { fail: vec![(Operation::Sync, nth)], ..FaultPlan::default() });
        drop(open(&disk));
        disk.kill();
        // Until a start's own fresh segment is durable, the log is only what the start found.
        for stop in 0..16 {
            let about = format!("sync {nth}, seed {seed}, stop {stop}");
            let disk = disk.fork(seed);
            disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
            drop(open(&disk));
            disk.crash();
            let (_, recovered) = open(&disk).unwrap_or_else(|error| panic!("{about}: {error}"));
            assert_eq!(recovered.entries, expected, "{about}");
        }
    }
}

#[test]
fn every_failed_operation_ends_the_log_and_the_next_start_recovers() {
    let kinds = [
        Operation::Create,
        Operation::Write,
        Operation::Preallocate,
        Operation::Sync,
        Operation::Rename,
        Operation::Remove,
        Operation::SyncDir,
        Operation::Open,
        Operation::Read,
    ];
    for kind in kinds {
        for nth in 0..30 {
            let about = format!("{kind:?} {nth}");
            let mut player = Player::new(nth);
            player.plan(FaultPlan { fail: vec![(kind, nth)], ..FaultPlan::default() });
            if let Err(error) = player.live(30) {
                assert!(matches!(error, StorageError::Io { .. }), "{about}: {error}");
            }
            player.disk.crash();
            player.must_open(&about);
        }
    }
}

#[test]
fn a_disk_that_lies_about_syncs_is_noticed() {
    let mut noticed = 0;
    for seed in 0..50 {
        let mut player = Player::new(seed);
        player.plan(FaultPlan { syncs_lie: true, ..FaultPlan::default() });
        player.live(20).expect("nothing seems to fail");
        player.disk.crash();
        noticed += u64::from(player.open().is_err());
    }
    assert!(noticed > 40, "only {noticed} of 50 lies were noticed");
}
