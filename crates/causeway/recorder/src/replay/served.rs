//! A bus of a replay's own, in a thread of this process.

use std::io::{self, PipeWriter};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use causeway_bus::AuthorityOptions;

use crate::failure::Failure;

pub struct Served {
    /// Closed when the bus is to end.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// Serves a bus for native members at a path.
pub fn serve(path: &Path) -> Result<Served, Failure> {
    let (end, stop) = io::pipe()?;
    let (tell, told) = mpsc::channel();
    let path = path.to_owned();
    let thread = std::thread::spawn(move || {
        let ready = tell.clone();
        let ended = causewayd::serve_alone(&path, AuthorityOptions::default(), &end.into(), || {
            // Whoever waits for this is there.
            let _ = ready.send(Ok(()));
        });
        if let Err(why) = ended {
            let _ = tell.send(Err(why));
        }
    });
    let served = Served { stop: Some(stop), thread: Some(thread) };
    match told.recv() {
        Ok(Ok(())) => Ok(served),
        Ok(Err(why)) => Err(Failure::Failed(why)),
        Err(mpsc::RecvError) => Err(Failure::Failed("the bus has ended before it began".into())),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic is on standard error.
            let _ = thread.join();
        }
    }
}
