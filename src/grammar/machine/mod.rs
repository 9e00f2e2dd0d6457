//! Messages of a machine that explain why a job on it failed: lines of the kernel, of syslog and of the journal.
//!
//! ```text
//! [  123.456789] NVRM: Xid (PCI:0000:dc:00): 79, pid=81, name=python, GPU has fallen off the bus.    dmesg
//! <3>[  123.456789][ T81] oom-kill:constraint=CONSTRAINT_MEMCG,...,task=python,pid=81,uid=0          dmesg -r
//! [Fri Nov 27 20:56:54 2026] mlx5_core 0000:3b:00.0 ib0: Link down                                   dmesg -T
//! 2026-11-27T20:56:54,123456+00:00 nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28  dmesg --time-format iso
//! Nov 27 20:56:54 n1 kernel: [  123.456789] Out of memory: Killed process 81 (python) total-vm:8kB   syslog
//! 2026-11-27T20:56:54+0000 n1 kernel: INFO: task python:81 blocked for more than 120 seconds.        journalctl -o short-iso
//! ```

mod line;
mod message;
mod process;
mod report;
mod wall_time;
mod xid;

pub use line::{KernelClock, KernelLine, parse_kernel_line};
pub use message::{MachineMessage, find_machine_message};
pub use process::{PciAddress, find_pci_address};
pub use report::{MachineClass, MachineReport, ReportNumber};
pub use wall_time::{WallTime, find_wall_time};
pub(crate) use xid::parse_xid;
