//! Tests of stores on real disks, and on disks in memory that fail. They are one program, so that
//! it is linked once and its tests use all cores.

mod crashes;
mod damage;
mod faults;
mod formats;
mod generated;
mod hooked_disk;
mod threads;
mod waits;
