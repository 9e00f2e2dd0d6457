//! Merges the members of inputs that were read apart.

use super::{MergedMembers, MergedNumbers, SpeakerComm};

impl MergedMembers {
    /// Adds the members of inputs that were read elsewhere and come after those read here. Returns their
    /// numbers here. Calls keep the identities that they have from the inputs that were read with them.
    pub fn merge(&mut self, other: &MergedMembers) -> MergedNumbers {
        self.begin_next_input();
        let mut to = self.begin_chunk();
        for process in 0..other.origins.processes.items().len() {
            let process = self.merge_process(&other.origins, process as u32);
            to.processes.push(process);
        }
        self.add_process_devices(&other.origins, &mut to);
        let identities = other.identities.items().iter();
        let identities = identities.map(|&identity| self.identities.intern(identity) + 1);
        let identities: Vec<u32> = std::iter::once(0).chain(identities).collect();
        let met = other.origins.members.items().iter();
        let first = other.origins.first_at.iter().zip(&other.origins.prints);
        for (member, (&at, &print)) in met.zip(first) {
            let member = SpeakerComm {
                place: to.places[member.place as usize],
                identity: identities[member.identity as usize],
                ..*member
            };
            to.members
                .push(self.origins.intern_member(member, at, || print));
        }
        let here = |process: u32| to.processes[process as usize];
        for (&(process, comm), &identity) in &other.current {
            let identity = identities[identity as usize];
            self.current.insert((here(process), comm), identity);
        }
        for (&(process, comm), &identity) in &other.sole {
            self.add_sole_meaning((here(process), comm), identities[identity as usize]);
        }
        let sides = other.sides.iter();
        let sides = sides.map(|&(of, dev, own)| (here(of), dev, identities[own as usize + 1] - 1));
        self.sides.extend(sides);
        for (&(process, parent, color), &children) in &other.children {
            let known = self.children.entry((here(process), parent, color));
            let known = known.or_default();
            *known = children.max(*known);
        }
        for (&comm, users) in &other.users {
            users
                .iter()
                .for_each(|&user| self.add_address_use(here(user), comm));
        }
        self.shares |= other.shares;
        self.using.extend(other.using.iter().map(|&p| here(p)));
        let introduced = other.introduced.iter().map(|&p| here(p));
        self.introduced.extend(introduced);
        self.strange.extend(other.strange.iter().map(|&p| here(p)));
        for (&pid, those) in &other.nameless {
            those.iter().for_each(|&p| self.add_nameless(pid, here(p)));
        }
        self.moved = self.moved.saturating_add(other.moved);
        self.overwritten |= other.overwritten;
        to
    }

    /// Adds the members of an input of this name that was read apart, as [`MergedMembers::find_separate_jobs`] needs
    /// them.
    pub fn merge_input(&mut self, name: String, other: &MergedMembers) {
        self.twice.begin_inputs(std::iter::once((name, u64::MAX)));
        let input = self.twice.input_at(0);
        for process in self.merge(other).processes {
            self.beside.add_process(process, input);
        }
    }
}
