//! The tools from outside: every test runs the binaries in a directory of its own.

mod alike;
mod blot;
mod damage;
mod documents;
mod extract;
mod faults;
mod incremental;
mod html;
mod index;
mod manners;
mod manual;
mod passages;
mod pipeline;
mod query;
mod shared;
mod tokenize;
mod unique;
mod work;
