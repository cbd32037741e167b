//! The parts of a measurement: turns between targets, sessions that are driven, figures of time and
//! of cost, and what is printed and kept of them.

pub mod census;
pub mod comparison;
pub mod course;
pub mod driver;
pub mod figures;
pub mod file_system;
pub mod idle;
pub mod machine_info;
pub mod meter;
pub mod open_files;
pub mod pace;
pub mod published;
pub mod record;
pub mod report;
pub mod result_files;
pub mod samples;
pub mod stats;
