//! All clients: whose turn it is, which ones wait for memory, and which take too long.

use super::{
    client::{ClientPhase, ServiceClient},
    engine::put_error,
};
use crate::history::backend::Connection;
use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

/// How long a client may take to close its side after its last answer.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How long a long line may wait for memory.
const PATIENCE: Duration = Duration::from_secs(2);
/// The bytes that are read from a client in one turn.
pub const READ_BYTES: usize = 32 << 10;

/// Clients by number. Numbers of disconnected clients are used again.
pub struct ServiceClients {
    all: Vec<Option<ServiceClient>>,
    free: Vec<usize>,
    /// The clients that may be readable or writable.
    turns: VecDeque<usize>,
    deadlines: BTreeSet<(Instant, usize)>,
    /// The clients that are not read from for lack of memory.
    starving: BTreeSet<usize>,
    /// The bytes of all clients beyond their own shares, and their limit.
    used_bytes: usize,
    most_bytes: usize,
    /// The number of clients that exceed the limit and get only an error.
    pub refused: usize,
}

impl ServiceClients {
    pub fn new(most_bytes: usize) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            turns: VecDeque::new(),
            deadlines: BTreeSet::new(),
            starving: BTreeSet::new(),
            used_bytes: 0,
            most_bytes,
            refused: 0,
        }
    }

    /// The number that the next client gets.
    pub fn next_number(&self) -> usize {
        self.free.last().copied().unwrap_or(self.all.len())
    }

    /// Adds a client with the number [`Self::next_number`].
    pub fn add(&mut self, stream: Connection) -> usize {
        let number = self.next_number();
        if self.free.pop().is_none() {
            self.all.push(None);
        }
        self.all[number] = Some(ServiceClient::new(number, stream));
        self.take_turn(number);
        number
    }

    /// Sends one error line to a client that exceeds the limit.
    pub fn refuse(&mut self, number: usize, why: &str) {
        let mut line = Vec::new();
        put_error(&mut line, why);
        if let Some(client) = self.get(number) {
            (client.is_refused, client.phase) = (true, ClientPhase::Closing);
            client.answer(&line);
            self.refused += 1;
        }
        self.settle(number);
    }

    pub fn get(&mut self, number: usize) -> Option<&mut ServiceClient> {
        self.all.get_mut(number)?.as_mut()
    }

    pub fn numbers(&self) -> Vec<usize> {
        (0..self.all.len())
            .filter(|&number| self.all[number].is_some())
            .collect()
    }

    pub fn connected(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Queues a client for a turn, once.
    pub fn take_turn(&mut self, number: usize) {
        if let Some(client) = self.get(number)
            && !std::mem::replace(&mut client.is_queued, true)
        {
            self.turns.push_back(number);
        }
    }

    /// The number of queued clients.
    pub fn turns(&self) -> usize {
        self.turns.len()
    }

    pub fn next_turn(&mut self) -> Option<usize> {
        let number = self.turns.pop_front()?;
        if let Some(client) = self.get(number) {
            client.is_queued = false;
        }
        Some(number)
    }

    /// Whether there is memory to read from a client.
    fn has_room(&self, client: &ServiceClient) -> bool {
        let limits = client.excess(READ_BYTES);
        limits == 0 || self.used_bytes - client.counted + limits <= self.most_bytes
    }

    /// The client if it can be read from now. If it lacks memory, it is queued again when there is
    /// some.
    pub fn readable(&mut self, number: usize) -> Option<&mut ServiceClient> {
        let client = self.all.get(number)?.as_ref()?;
        if !client.can_read || !client.is_listened_to() {
            return None;
        }
        if !self.has_room(client) {
            if client.is_in_long_line(READ_BYTES) && client.deadline.is_none() {
                self.set_deadline(number, Some(Instant::now() + PATIENCE));
            }
            self.starving.insert(number);
            return None;
        }
        self.starving.remove(&number);
        self.set_deadline(number, None);
        let client = self.get(number)?;
        client.make_room(READ_BYTES);
        Some(client)
    }

    /// Updates a client after something was read, answered or sent.
    pub fn settle(&mut self, number: usize) {
        let Some(client) = self.get(number) else {
            return;
        };
        if client.phase == ClientPhase::Closing && client.is_answered() {
            client.leave();
            if client.phase == ClientPhase::Leaving {
                self.set_deadline(number, Some(Instant::now() + LAST_WAIT));
            }
        }
        self.count_bytes(number);
        let Some(Some(client)) = self.all.get(number) else {
            return;
        };
        match client.phase {
            ClientPhase::Gone if client.is_idle() => self.remove(number),
            // A client that lacks memory gets a turn when there is some.
            ClientPhase::Open
                if client.can_read
                    && client.is_listened_to()
                    && !self.starving.contains(&number) =>
            {
                self.take_turn(number)
            }
            ClientPhase::Leaving if client.can_read => self.take_turn(number),
            _ => {}
        }
    }

    fn remove(&mut self, number: usize) {
        self.set_deadline(number, None);
        self.starving.remove(&number);
        // Closing the socket also removes it from the poll.
        let Some(client) = self.all[number].take() else {
            return;
        };
        if client.is_queued {
            self.turns.retain(|&other| other != number);
        }
        self.refused -= usize::from(client.is_refused);
        self.free.push(number);
        self.count(client.counted, 0);
    }

    fn count_bytes(&mut self, number: usize) {
        let Some(client) = self.get(number) else {
            return;
        };
        let counts = client.excess(0);
        let counted = std::mem::replace(&mut client.counted, counts);
        self.count(counted, counts);
    }

    /// Replaces a number of counted bytes by another. If it is lower, clients that lack memory get
    /// a turn.
    fn count(&mut self, before: usize, now: usize) {
        self.used_bytes = self.used_bytes - before + now;
        if now < before {
            std::mem::take(&mut self.starving)
                .into_iter()
                .for_each(|number| self.take_turn(number));
        }
    }

    fn set_deadline(&mut self, number: usize, deadline: Option<Instant>) {
        let Some(client) = self.get(number) else {
            return;
        };
        let before = std::mem::replace(&mut client.deadline, deadline);
        before.map(|before| self.deadlines.remove(&(before, number)));
        deadline.map(|deadline| self.deadlines.insert((deadline, number)));
    }

    pub fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The next client whose deadline has passed.
    pub fn next_late(&mut self, now: Instant) -> Option<usize> {
        let (_, number) = self
            .deadlines
            .first()
            .copied()
            .filter(|&(deadline, _)| deadline <= now)?;
        self.set_deadline(number, None);
        Some(number)
    }

    /// The limit of the bytes of all clients.
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::net::UnixStream};

    /// A turn of a client that sends an endless line: whether it was read from.
    fn attend(clients: &mut ServiceClients) -> bool {
        let number = clients.next_turn().unwrap();
        let is_read = clients.readable(number).map(|client| {
            client.take_part(&[b'x'; READ_BYTES]);
            client.can_read = true;
        });
        clients.settle(number);
        is_read.is_some()
    }

    /// Clients without memory are not polled: they get a turn when there is some.
    #[test]
    fn a_client_that_waits_for_memory_sleeps_until_some_is_free() {
        let mut clients = ServiceClients::new(1 << 20);
        let mut others = Vec::new();
        for _ in 0..2 {
            let (own, mut other) = UnixStream::pair().unwrap();
            own.set_nonblocking(true).unwrap();
            other.write_all(b"x").unwrap();
            others.push(other);
            clients.add(Connection::Unix(own));
        }
        let mut reads = 0;
        while clients.turns() > 0 {
            reads += usize::from(attend(&mut clients));
            assert!(reads < 1000, "more is read than there is memory for");
        }
        assert!(clients.used_bytes <= 1 << 20 && clients.starving.len() == 2);
        assert!(clients.first_deadline().is_some());
        // The other client disconnects.
        clients.get(0).unwrap().phase = ClientPhase::Gone;
        clients.settle(0);
        assert_eq!(
            (clients.turns(), clients.connected(), clients.starving.len()),
            (1, 1, 0)
        );
        assert!(attend(&mut clients) && clients.first_deadline().is_none());
    }
}
