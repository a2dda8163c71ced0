//! Messages on their way to the log, and waiting for what it has.

use super::Applier;
use crate::{
    base::error::{Error, Result},
    history::{
        log::{
            message::{LogMessage, LogOperation, MESSAGE_BYTES},
            own_message::{Outcome, OwnMessage, OwnedRequest},
            replicated::WhenLost,
        },
        store::log_cursor::Forgotten,
    },
};
use std::time::{Duration, Instant};

/// The time until a message that failed is published again.
const AGAIN: Duration = Duration::from_millis(100);
/// After this time without an acknowledgement a message is published again.
const UNANSWERED: Duration = Duration::from_secs(5);

impl Applier {
    /// Publishes operations and waits until they were applied; `None` if the log is out of reach:
    /// they may be applied later.
    pub(super) fn change(
        &mut self,
        operations: Vec<LogOperation>,
        requests: Vec<OwnedRequest>,
    ) -> Result<Option<Outcome>> {
        if self.is_out_of_reach() {
            self.probe();
            return Ok(None);
        }
        let message = LogMessage {
            publisher: self.publisher,
            number: self.next_message,
            time: (self.clock)(),
            after: self.marks.back().copied().unwrap_or_default(),
            forgotten: self.to_forget(),
            operations,
        };
        self.next_message += 1;
        let bytes = message.to_bytes();
        if bytes.len() > 2 * MESSAGE_BYTES - 1024 {
            return Err(Error::Usage("an id is too long for the log".to_owned()));
        }
        self.own = Some(OwnMessage {
            number: message.number,
            requests,
            outcome: None,
            is_acknowledged: false,
        });
        let outcome = self.await_own(message.number, &bytes);
        self.own = None;
        if outcome.is_some() {
            // A message went through, so the log knows what it has.
            self.leader = self
                .answered
                .as_ref()
                .map(|(_, extent)| extent.leader.clone());
        }
        self.ensure_usable()?;
        Ok(outcome)
    }

    fn await_own(&mut self, number: u64, bytes: &[u8]) -> Option<Outcome> {
        let mut deadline = Instant::now() + self.options.patience;
        let mut publish_at = Some(Instant::now());
        let mut published_at = Instant::now();
        loop {
            if publish_at.is_some_and(|at| at <= Instant::now()) {
                self.log.publish(number, bytes.to_vec());
                published_at = Instant::now();
                publish_at = None;
            }
            let until = publish_at.unwrap_or(deadline).min(deadline);
            let failed = self.receive(until);
            let own = self.own.as_mut()?;
            if let Some(outcome) = own.outcome.take() {
                return Some(outcome);
            }
            if self.failed.is_some() {
                return None;
            }
            let is_acknowledged = own.is_acknowledged;
            if failed && !is_acknowledged {
                publish_at = Some(Instant::now() + AGAIN);
            }
            if Instant::now() >= deadline {
                self.lose("it does not take messages");
                if self.options.when_lost == WhenLost::Say {
                    return None;
                }
                deadline = Instant::now() + self.options.patience;
                self.probe();
                if !is_acknowledged && published_at.elapsed() > UNANSWERED {
                    publish_at = Some(Instant::now());
                }
            }
        }
    }

    /// Tells all servers that the log continues this history.
    pub(super) fn begin(&mut self) -> Result<()> {
        let begin = LogOperation::Begin {
            history: self.history.identity().to_owned(),
            next_sequence: self.history.next_sequence(),
        };
        match self.change(vec![begin], Vec::new())? {
            Some(_) => Ok(()),
            None => {
                Err(self.refused("it does not take messages, so it cannot be begun; try again"))
            }
        }
    }

    fn to_forget(&self) -> Forgotten {
        let now = (self.clock)().max(self.history.last_time());
        Forgotten {
            first_sequence: self
                .forget
                .entries
                .map_or(0, |most| self.history.next_sequence().saturating_sub(most)),
            first_time: self
                .forget
                .age_seconds
                .map_or(0, |age| now.saturating_sub(age)),
        }
    }

    /// Applies what the log has now; false if it is out of reach.
    pub(super) fn wait_for_last(&mut self) -> Result<bool> {
        loop {
            if self.options.when_lost == WhenLost::Say && self.is_out_of_reach() {
                self.probe();
                return Ok(false);
            }
            let asked = self.ask_extent();
            let deadline = Instant::now() + self.options.patience;
            while Instant::now() < deadline {
                let extent = self.answered.clone().filter(|(number, _)| *number >= asked);
                if let Some((_, extent)) = extent {
                    // A node that was just elected may not know yet all that the log has.
                    if self.leader.as_ref() != Some(&extent.leader) {
                        return Ok(self.change(Vec::new(), Vec::new())?.is_some());
                    }
                    if self.position >= extent.last {
                        return Ok(true);
                    }
                }
                self.receive(deadline);
                self.ensure_usable()?;
            }
            self.lose("it does not answer");
        }
    }
}
