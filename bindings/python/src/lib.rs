//! Python on Causeway: `causeway_ipc._native`. It converts and waits, and decides nothing itself; what asyncio needs is in Python
//! (`python/causeway_ipc/`), over the descriptor and the rule of `arm` and `prepare_to_wait`.
//!
//! Every method runs inside [`handle::guarded`]: a panic becomes a `RuntimeError`, and a forked child gets an error.

mod bus;
mod descriptors;
mod errors;
mod group;
mod handle;
mod options;
mod payload;
mod publisher;
mod subscriber;
mod values;
mod wait;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Panics, for the test that shows what becomes of it.
#[pyfunction]
fn _panic() -> PyResult<()> {
    handle::guarded(|| panic!("as the test wants it"))
}

/// To be called in a child that was forked: what its parent made is not its own.
#[pyfunction]
fn _forked() {
    handle::note_fork();
}

// Frozen classes with locks: nothing here needs the lock of the interpreter. But no interpreter that PyO3 still knows has tested it.
#[pymodule(name = "_native", gil_used = true)]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<options::Policy>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<publisher::Publisher>()?;
    module.add_class::<publisher::SpaceNotice>()?;
    module.add_class::<subscriber::Subscriber>()?;
    module.add_class::<subscriber::Message>()?;
    module.add_class::<payload::Payload>()?;
    module.add_class::<bus::Connection>()?;
    module.add_class::<bus::BusMessage>()?;
    module.add_class::<bus::Rule>()?;
    module.add_function(wrap_pyfunction!(_panic, module)?)?;
    let forked = wrap_pyfunction!(_forked, module)?;
    let arguments = PyDict::new(py);
    arguments.set_item("after_in_child", forked)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}
