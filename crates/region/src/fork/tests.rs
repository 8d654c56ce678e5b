//! Children that succeed, fail, panic, hang and are killed, many at a time.

use super::*;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

const LIMIT: usize = 1 << 30;

fn never() -> bool {
    false
}

fn run(work: impl FnOnce(&mut Output) -> Result<()>) -> Result<SharedBytes> {
    spawn(LIMIT, || Ok(()), work)?.wait(&never)
}

fn write(output: &mut Output, bytes: &[u8]) -> Result<()> {
    output.write_all(bytes).map_err(|error| Error::internal(error.to_string()))
}

/// What the system says the process is; `None` if there is none.
fn state(pid: i32) -> Option<char> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    status.rsplit(')').next()?.trim().chars().next()
}

#[test]
fn results_come_back_whole() {
    for size in [0, 1, 4096, 100_000, 40 << 20] {
        let bytes = run(|output| {
            let mut left = size;
            while left > 0 {
                let piece = left.min(77_777);
                write(output, &vec![(left % 251) as u8; piece])?;
                left -= piece;
            }
            Ok(())
        })
        .unwrap();
        let bytes = bytes.as_ref();
        assert_eq!(bytes.len(), size);
        let mut left = size;
        for piece in bytes.chunks(77_777) {
            assert!(piece.iter().all(|byte| *byte == (left % 251) as u8));
            left -= piece.len();
        }
    }
}

#[test]
fn a_child_sees_memory_as_it_was() {
    let word = AtomicU64::new(1);
    let (told, tell) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = || {
                assert_eq!(word.load(Ordering::Relaxed), 1);
                Ok(())
            };
            let child = spawn(LIMIT, held, |output| {
                std::thread::sleep(Duration::from_millis(50));
                write(output, &word.load(Ordering::Relaxed).to_le_bytes())
            });
            let child = child.unwrap();
            word.store(2, Ordering::Relaxed);
            told.send(child.wait(&never).unwrap().as_ref().to_vec()).unwrap();
        });
    });
    assert_eq!(tell.recv().unwrap(), 1u64.to_le_bytes());
}

#[test]
fn errors_and_panics_are_told() {
    let wanted = Error::new(SqlState::DivisionByZero, "division by zero").with_detail("1 / 0");
    assert_eq!(run(|_| Err(wanted.clone())).err(), Some(wanted));
    let panic = run(|_| panic!("no {}", "way")).err().unwrap();
    assert_eq!(panic.state(), SqlState::InternalError);
    assert!(panic.message().ends_with("no way") && panic.detail().unwrap().contains("tests.rs"), "{panic}");
    let limited = spawn(1000, || Ok(()), |output| write(output, &[0; 2000])).unwrap().wait(&never);
    assert!(limited.err().unwrap().message().contains("too large"));
    let refused = spawn(LIMIT, || Err::<(), _>(Error::internal("not now")), |_| Ok(()));
    assert_eq!(refused.err().unwrap().message(), "not now");
    let nested = run(|_| spawn(LIMIT, || Ok(()), |_| Ok(())).map(drop));
    assert_eq!(nested.err().unwrap().state(), SqlState::FeatureNotSupported);
}

#[test]
fn a_child_that_dies_is_explained() {
    let aborted = run(|_| std::process::abort()).err().unwrap();
    assert!(aborted.message().contains("signal 6 (SIGABRT)"), "{aborted}");
    let left = run(|_| {
        // SAFETY: ends the process.
        unsafe { libc::_exit(7) }
    });
    assert!(left.err().unwrap().message().contains("code 7"));
    let child = spawn(
        LIMIT,
        || Ok(()),
        |_| loop {
            std::thread::sleep(Duration::from_secs(1));
        },
    );
    let child = child.unwrap();
    // SAFETY: our own child.
    unsafe { libc::kill(child.pid(), libc::SIGKILL) };
    let error = child.wait(&never).err().unwrap();
    assert_eq!(error.state(), SqlState::SystemError);
    assert!(error.message().contains("signal 9 (SIGKILL)") && error.hint().is_some(), "{error}");
}

#[test]
fn canceled_and_dropped_children_are_reaped() {
    let endless = || {
        spawn(
            LIMIT,
            || Ok(()),
            |_| loop {
                std::thread::sleep(Duration::from_secs(1));
            },
        )
        .unwrap()
    };
    let (canceled, dropped) = (endless(), endless());
    let pids = [canceled.pid(), dropped.pid()];
    assert!(pids.iter().all(|pid| state(*pid).is_some_and(|state| state != 'Z')));
    assert_eq!(canceled.wait(&|| true).err().unwrap().state(), SqlState::QueryCanceled);
    drop(dropped);
    assert_eq!(pids.map(state), [None, None], "neither running nor a zombie");
}

#[test]
fn a_child_dies_with_the_thread_that_made_it() {
    let child = std::thread::spawn(|| {
        let work = |_: &mut Output| loop {
            std::thread::sleep(Duration::from_secs(1));
        };
        let child = spawn(LIMIT, || Ok(()), work);
        // The child has asked for it by then.
        std::thread::sleep(Duration::from_millis(300));
        child
    });
    let child = child.join().unwrap().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let error = child.wait(&|| Instant::now() > end).err().unwrap();
    assert!(error.message().contains("SIGKILL"), "{error}");
}

#[test]
fn a_child_has_no_files_of_its_parent() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    let child = spawn(
        LIMIT,
        || Ok(()),
        |_| loop {
            std::thread::sleep(Duration::from_secs(1));
        },
    );
    let child = child.unwrap();
    // As soon as the child has closed its copy, the port is free.
    drop(port);
    let end = Instant::now() + Duration::from_secs(10);
    while std::net::TcpListener::bind(address).is_err() {
        assert!(Instant::now() < end, "the port is held");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(child);
    let open = run(|output| {
        let open = (0..200).filter(|&number| {
            // SAFETY: asks whether a file is open.
            unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
        });
        write(output, &open.map(|number| number as u8).collect::<Vec<_>>())
    });
    assert!(open.unwrap().as_ref().iter().all(|number| *number <= 3));
}

#[test]
fn prepared_things_are_held_during_the_fork_and_given_back_in_the_parent() {
    struct Held<'a>(&'a AtomicBool);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let held = AtomicBool::new(false);
    let prepare = || {
        held.store(true, Ordering::SeqCst);
        Ok(Held(&held))
    };
    let child = spawn(LIMIT, prepare, |output| write(output, &[held.load(Ordering::SeqCst) as u8])).unwrap();
    assert!(!held.load(Ordering::SeqCst));
    assert_eq!(child.wait(&never).unwrap().as_ref(), [1]);
}

#[test]
fn refusals_of_the_system_are_explained() {
    let processes = refused(libc::EAGAIN);
    assert_eq!(processes.state(), SqlState::TooManyConnections);
    assert!(processes.message().contains("could not fork a process") && processes.hint().is_some());
    assert_eq!(refused(libc::ENOMEM).state(), SqlState::OutOfMemory);
}

/// The child's verdict, or `None` if it did not end in time and was killed.
fn within(limit: Duration, work: impl FnOnce(&mut Output) -> Result<()>) -> Option<Result<SharedBytes>> {
    let child = spawn(LIMIT, || Ok(()), work).unwrap();
    let end = Instant::now() + limit;
    match child.wait(&|| Instant::now() > end) {
        Err(error) if error.state() == SqlState::QueryCanceled => None,
        other => Some(other),
    }
}

/// Others allocate and free as fast as they can while children do, too.
#[test]
fn children_allocate_while_the_parent_does() {
    let stop = AtomicBool::new(false);
    let churn = || {
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for step in 0..2000usize {
            kept.push(vec![step as u8; 1 << (step % 17)]);
            if step % 3 > 0 {
                kept.swap_remove(step % kept.len());
            }
            // SAFETY: allocated with the same size, no longer used.
            unsafe { ankerdb_memory::free(ankerdb_memory::allocate(4096 << (step % 8)), 4096 << (step % 8)) };
        }
        kept.iter().map(Vec::len).sum::<usize>()
    };
    let own = ankerdb_memory::allocate(1 << 20);
    let address = own.addr();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(churn());
                }
            });
        }
        for round in 0..200 {
            let ended = within(Duration::from_secs(30), |output| {
                // Memory from before the fork is not given back, and not handed out again.
                let foreign = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(address.get()));
                // SAFETY: the parent's, which the child does not use.
                unsafe { ankerdb_memory::free(foreign.unwrap(), 1 << 20) };
                assert_ne!(ankerdb_memory::allocate(1 << 20).addr(), address);
                write(output, &churn().to_le_bytes())
            });
            if ended.is_none() {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(ended.unwrap_or_else(|| panic!("child {round} hangs")).is_ok());
        }
        stop.store(true, Ordering::Relaxed);
    });
    // SAFETY: allocated above.
    unsafe { ankerdb_memory::free(own, 1 << 20) };
}

/// The control of all tests for hangs: a lock that another thread holds when the process forks.
#[test]
fn a_lock_of_another_thread_is_found_to_hang_the_child() {
    let lock = Mutex::new(());
    let (locked, is_locked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            let _held = lock.lock();
            locked.send(()).unwrap();
            let _ = released.recv();
        });
        is_locked.recv().unwrap();
        let take = |_: &mut Output| {
            drop(lock.lock());
            Ok(())
        };
        assert!(
            within(Duration::from_millis(300), take).is_none(),
            "the child took a lock that it cannot get"
        );
        release.send(()).unwrap();
    });
    assert!(
        within(Duration::from_secs(10), |_| {
            drop(lock.lock());
            Ok(())
        })
        .unwrap()
        .is_ok()
    );
}
