//! The results of a benchmark: one JSON schema for all of `quorate bench`, and what is made of it.
//!
//! The path of a figure: a workload fills a [`schema::Results`]; [`ratio`] compares two systems
//! whose runs were made in turn; [`rows`] picks the rows of a table; [`html`], [`markdown`] and
//! [`text`] show it. Of two runs, [`matched`] finds what both have; [`compare`] shows it, [`gate`]
//! judges it. Pure: figures in, text out.

pub mod compare;
#[cfg(test)]
mod example;
pub mod gate;
pub mod html;
pub mod markdown;
pub mod matched;
pub mod number;
pub mod ratio;
pub mod rows;
pub mod schema;
pub mod svg;
pub mod text;

pub use schema::Results;
