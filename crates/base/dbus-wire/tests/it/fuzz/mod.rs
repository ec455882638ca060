//! Bytes and texts that others send: none of them is understood in two ways, and none stops its reader.

mod text;
