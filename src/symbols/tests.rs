//! Tests of naming: real files, damaged files.
