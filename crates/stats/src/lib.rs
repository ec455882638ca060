//! Order statistics, intervals, stopping rule, regimes, comparison. Pure.
