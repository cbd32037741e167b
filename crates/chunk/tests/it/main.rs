//! Stores on real disks, and on disks in memory that fail. They share one program, so that it is
//! linked once and they fill all cores.

mod crashes;
mod damage;
mod faults;
mod formats;
mod generated;
mod hooked_disk;
mod threads;
mod waits;
