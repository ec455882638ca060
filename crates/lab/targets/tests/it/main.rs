//! What the documents say of the sources of the laboratory, where the compiler cannot hold it.

mod invariants;
