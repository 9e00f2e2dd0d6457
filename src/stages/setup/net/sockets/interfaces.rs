//! The interfaces that NCCL chose for its sockets.

use crate::grammar::message::network::net::NetMessage;
use crate::grammar::message::network::nic::{Nic, NicKind, NicList};
use crate::grammar::message::{MessageFamily, NcclMessage};
use serde::{Deserialize, Serialize};

/// What an interface is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum InterfaceRole {
    /// The ranks find each other over it: the first one that `Bootstrap : Using` lists.
    Bootstrap,
    /// InfiniBand and RoCE connections are agreed on over it.
    Control,
    /// Data goes over it if the network is sockets.
    Data,
}

/// An interface in use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct InterfaceUse {
    pub(crate) role: InterfaceRole,
    /// Its name.
    pub(crate) name: Box<[u8]>,
    /// Its address; empty where the line has none.
    pub(crate) address: Box<[u8]>,
}

/// Collects the interfaces that a message names.
pub(super) fn collect_interfaces(message: &NcclMessage<'_>, mut add: impl FnMut(InterfaceUse)) {
    match message {
        NcclMessage::Net(NetMessage::Nics(nics)) => collect_from_list(nics, add),
        // `src/transport/net_socket.cc` of NCCL 2.5 and later asks each of its interfaces.
        NcclMessage::Plain(MessageFamily::Topology, text) => {
            let name = text
                .strip_prefix(b"Could not get speed from /sys/class/net/")
                .and_then(|rest| rest.split(|&b| b == b'/').next());
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                add(InterfaceUse {
                    role: InterfaceRole::Data,
                    name: name.into(),
                    address: Box::default(),
                });
            }
        }
        _ => {}
    }
}

fn collect_from_list(nics: &NicList<'_>, mut add: impl FnMut(InterfaceUse)) {
    let mut add_nic = |role, nic: &Nic<'_>| {
        if let NicKind::Interface { address, .. } = nic.kind {
            add(InterfaceUse {
                role,
                name: nic.name.into(),
                address: address.into(),
            });
        }
    };
    if let Some(oob) = &nics.oob {
        add_nic(InterfaceRole::Control, oob);
    }
    match nics.by {
        // NCCL 2.4 to 2.7 lists all that it found, and uses the first (`bootstrapNetInit`).
        b"Bootstrap" => {
            if let Some(first) = nics.iter().next() {
                add_nic(InterfaceRole::Bootstrap, &first);
            }
        }
        _ => nics
            .iter()
            .for_each(|nic| add_nic(InterfaceRole::Data, &nic)),
    }
}
