//! What messages report: the values that the tables have.

/// What a message reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineReport {
    /// What it is about.
    pub class: MachineClass,
    /// What a person has to do, by the word of the tables.
    pub action: &'static str,
    /// The number of the driver.
    pub number: Option<ReportNumber>,
    /// Its meaning, a clause.
    pub means: &'static str,
}

/// A number by which a driver reports an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportNumber {
    /// Of a GPU.
    Xid(u32),
    /// Of an NVSwitch.
    SwitchXid(u32),
}

/// Declares the classes, each with the word of the tables.
macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $value:ident = $word:literal,)+) => {
        /// What a message is about; the tables describe each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum MachineClass {
            $($(#[doc = $doc])+ $value,)+
        }

        impl MachineClass {
            /// Returns the class of a word of the tables.
            pub fn parse_word(word: &str) -> Option<MachineClass> {
                match word {
                    $($word => Some(MachineClass::$value),)+
                    _ => None,
                }
            }
        }
    };
}

classes! {
    /// A GPU that failed.
    Gpu = "gpu",
    /// Memory of a GPU.
    Memory = "memory",
    /// NVLink.
    Link = "link",
    /// NVSwitch.
    Switch = "switch",
    /// An error of the host's memory or CPU.
    Ram = "ram",
    /// An error of PCIe.
    Pcie = "pcie",
    /// A NIC or its link.
    Nic = "nic",
    /// A process that was killed for lack of memory.
    Oom = "oom",
    /// A process that crashed.
    Crash = "crash",
    /// An engine of a GPU.
    Engine = "engine",
    /// A program's error on a GPU.
    Program = "program",
    /// A GPU with lowered clocks.
    Slow = "slow",
    /// A process that waits in the kernel.
    Hung = "hung",
    /// A consequence.
    Follows = "follows",
    /// Nothing that ends a job.
    Harmless = "harmless",
    /// A link that is up again.
    Up = "up",
}

impl MachineClass {
    /// True for a failure of a GPU, its memory or its links.
    pub fn is_gpu_failure(self) -> bool {
        matches!(
            self,
            MachineClass::Gpu | MachineClass::Memory | MachineClass::Link
        )
    }
}
