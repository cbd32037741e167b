//! Checks a command's permissions in steps, because the check may take long: a transaction has any
//! number of parts, and a put needs permission for all keys of its lease.

use crate::etcd::auth::check::AuthInfo;
use crate::etcd::auth::{Access, Permitting};
use crate::etcd::budget::Budget;
use crate::etcd::command::{Command, KeyRange, Op, Txn};
use crate::etcd::path::{Taken, Visit, Walk};
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;

impl Store {
    /// Does a part of the check of a command, within `budget`. True when the check is done.
    ///
    /// # Errors
    /// Permissions are enforced, and the user may not do this.
    pub(crate) fn permit_step(
        &self,
        who: Option<AuthInfo<'_>>,
        command: &Command<'_>,
        permitting: &mut Permitting,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        if !self.auth.is_enabled() {
            return Ok(true);
        }
        if !permitting.is_checked {
            permitting.is_checked = self.permit_command(who, command, permitting, budget)?;
        }
        Ok(permitting.is_checked && self.permit_leases(who, permitting, budget)?)
    }

    /// Does a part of the check of everything except the keys of leases: notes the leases whose
    /// keys are to be checked afterwards. True when this part is done.
    fn permit_command(
        &self,
        who: Option<AuthInfo<'_>>,
        command: &Command<'_>,
        permitting: &mut Permitting,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let txn = match command {
            Command::Txn(txn) => txn,
            Command::Put(put) => {
                self.require_put(who, put)?;
                permitting.note(put);
                return Ok(true);
            }
            Command::Revoke { lease } => {
                self.require_for(who, command)?;
                permitting.leases.insert(*lease);
                return Ok(true);
            }
            command => return self.require_for(who, command).map(|()| true),
        };
        self.permit_txn(who, txn, permitting, budget)
    }

    /// Does a part of the check of a transaction that only reads, looking at up to `keys_left`
    /// keys; subtracts their number from `keys_left`. True when the check is done. A member calls
    /// this in steps, each while it holds the state's lock, before it reads.
    ///
    /// # Errors
    /// Permissions are enforced, and the user may not read this.
    pub fn permit_read_step(
        &self,
        who: Option<AuthInfo<'_>>,
        txn: &Txn<'_>,
        permitting: &mut Permitting,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        if !permitting.is_checked {
            let mut budget = Budget::new(*keys_left);
            let done = self.permit_txn(who, txn, permitting, &mut budget);
            *keys_left = budget.keys_left;
            permitting.is_checked = done?;
        }
        Ok(permitting.is_checked)
    }

    /// Does a part of the check of a transaction: of all its comparisons, and all operations of
    /// both branches (`apply.checkTxnPermission`). Each costs one key of the budget, since finding
    /// a permission takes as long as finding a key. True when this is done.
    fn permit_txn(
        &self,
        who: Option<AuthInfo<'_>>,
        txn: &Txn<'_>,
        permitting: &mut Permitting,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let mut walk = Walk::at(txn, &permitting.levels);
        loop {
            if let Some(next) = &mut permitting.compare {
                let compare = walk.ahead().compares.get(*next);
                if compare.is_some() && !budget.spend_key() {
                    break;
                }
                if let Some(compare) = compare {
                    self.auth.require(who, Access::Read, compare.range)?;
                    *next += 1;
                    continue;
                }
                permitting.compare = None;
                walk.enter(Taken::Both);
            }
            if !budget.spend_key() {
                break;
            }
            match walk.visit() {
                None => return Ok(true),
                Some(Visit::End) => {}
                Some(Visit::Op(Op::Txn(_))) => permitting.compare = Some(0),
                Some(Visit::Op(op)) => {
                    self.require_op(who, op)?;
                    if let Op::Put(put) = op {
                        permitting.note(put);
                    }
                }
            }
        }
        permitting.levels = walk.levels();
        Ok(false)
    }

    /// Does a part of the check of the noted leases' keys. True when this is done.
    fn permit_leases(
        &self,
        who: Option<AuthInfo<'_>>,
        permitting: &mut Permitting,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let tag = self.auth.user_tag(who);
        while let Some(id) = permitting.leases.first().copied() {
            let found = self.leases.get(id).filter(|lease| {
                !(self.auth.require_root(who).is_ok() || lease.is_writable_by(tag))
            });
            if let Some(lease) = found {
                let after = permitting.after.take();
                let mut last = after.as_deref();
                for key in lease.keys_behind(last) {
                    if !budget.spend_key() {
                        permitting.after = last.map(Into::into);
                        return Ok(false);
                    }
                    self.auth.require(who, Access::Write, KeyRange { key, end: &[] })?;
                    last = Some(key);
                }
                if tag != 0 {
                    lease.set_writer(tag);
                }
            }
            permitting.after = None;
            permitting.leases.pop_first();
        }
        Ok(true)
    }
}
