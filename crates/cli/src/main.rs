//! Weighs what it costs to move messages, wake-ups and memory between Linux processes.
#![allow(clippy::print_stdout, clippy::print_stderr)]
use std::process::ExitCode;
use weighbridge_lab as lab;

struct S;
impl lab::session::Sink for S {
    fn line(&mut self, line: weighbridge_record::Line) -> std::io::Result<()> {
        match line {
            weighbridge_record::Line::Run(run) => println!(
                "{} {} value {:.1} n {} spo {} startup {:.1} elapsed {:.1} coord {:?} vol {:.2} inv {:.2} flt {:.4} cpu {:.0} flags {:?}",
                run.case,
                run.run,
                run.value,
                run.samples.len(),
                run.ops_per_sample,
                run.startup_ms,
                run.elapsed_ms,
                run.noise.coordinator_switches,
                run.per_op.voluntary_switches,
                run.per_op.involuntary_switches,
                run.per_op.minor_faults,
                run.per_op.cpu_ns,
                run.flags
            ),
            line => println!("{}", serde_json::to_string(&line).unwrap()),
        }
        Ok(())
    }
    fn progress(&mut self, _: &lab::session::Progress<'_>) {}
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "__peer" {
        return lab::peer::main(args[2].parse().unwrap(), causeway_os::process::inherited_fd(3).unwrap());
    }
    let interrupt = lab::interrupt::Interrupt::install().unwrap();
    let host = lab::host::Host::look().unwrap();
    let cases = args[1..]
        .iter()
        .filter_map(|a| match lab::subject::prepare(&a.parse().unwrap(), &host) {
            Ok(c) => Some(c),
            Err(e) => {
                println!("{a}: {e:?}");
                None
            }
        })
        .collect();
    let suite = lab::plan::Suite::find("quick").unwrap();
    let coordinator = lab::coordinator::Coordinator::new(&host, &interrupt, "/proc/self/exe".into(), 1);
    let settings = lab::session::Settings {
        precision: 0.02,
        budget: std::time::Duration::from_secs(20),
        timing: suite.timing,
        seed: 7,
        max_runs: 6,
    };
    lab::session::Session::new(settings, coordinator, &interrupt, cases).run(&mut S).unwrap();
    ExitCode::SUCCESS
}
