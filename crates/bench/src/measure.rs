//! How workloads are measured: targets take turns, a driver runs the sessions, meters count time
//! and cost, and the results are printed and written to files.

pub mod census;
pub mod comparison;
pub mod contest;
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
