//! An upstream server as the router knows it: what it keeps, and what it had when it last answered.

use super::{CardinalityRange, HelloReply, ServiceAddress, upstream::UpstreamConnection};
use crate::{base::error::Place, history::MatchLimits, text::scheme::PrintScheme};
use std::{sync::Arc, time::Instant};

/// One of the servers of a router.
pub struct UpstreamServer {
    pub address: ServiceAddress,
    pub name: Arc<str>,
    /// `None` while it is lost.
    pub upstream: Option<UpstreamConnection>,
    /// What it last said about itself; `None` if it was never connected.
    pub known: Option<HelloReply>,
    /// When it last was lost, or could not answer everything: replicas without trouble are asked
    /// first.
    pub trouble: Option<Instant>,
    /// Why it was last refused, so that this is reported once.
    pub refused: Option<String>,
}

impl UpstreamServer {
    pub fn new(address: &ServiceAddress) -> Self {
        Self {
            address: address.clone(),
            name: address.to_string().into(),
            upstream: None,
            known: None,
            trouble: None,
            refused: None,
        }
    }

    pub fn place(&self) -> Place {
        Place::file(self.name.clone())
    }

    /// The cardinalities that it keeps; `None` if it was never connected.
    pub fn buckets(&self) -> Option<CardinalityRange> {
        self.known.as_ref().map(|known| known.buckets)
    }

    pub fn come_back(&mut self, upstream: UpstreamConnection) {
        let is_ready = upstream.hello.log.as_ref().is_none_or(|log| log.is_ready);
        self.trouble = (!is_ready).then(Instant::now);
        self.known = Some(upstream.hello.clone());
        self.upstream = Some(upstream);
        self.refused = None;
    }

    /// Refuses a server that has lost documents since it last said what it has, or follows another
    /// log.
    pub fn ensure_continues(&self, hello: &HelloReply) -> Result<(), String> {
        const REMEDY: &str = "restore a backup of it, or start this front again to go on without";
        let Some(known) = &self.known else {
            return Ok(());
        };
        match (log(known), log(hello)) {
            (Some(before), Some(now)) if before != now => {
                return Err(format!(
                    "it follows the log {now}, and before it followed {before}; give it that log, or start this front again"
                ));
            }
            (Some(before), None) if hello.log.is_none() => {
                return Err(format!(
                    "it follows no log, and before it followed {before}; give it that log, or start this front again"
                ));
            }
            // The log has all that a server can lose.
            (Some(_), _) => return Ok(()),
            _ => {}
        }
        if known.arrived == 0 {
            return Ok(());
        }
        if hello.identity != known.identity {
            return Err(format!(
                "it has lost the {} documents that came to it, and has another history; {REMEDY}",
                known.arrived
            ));
        }
        if hello.arrived < known.arrived {
            return Err(format!(
                "it has lost documents: {} had come to it, and now {}; {REMEDY}",
                known.arrived, hello.arrived
            ));
        }
        Ok(())
    }
}

/// The log that a server follows; `None` if it follows none, or has not heard of it yet.
fn log(hello: &HelloReply) -> Option<&str> {
    let log = hello.log.as_ref()?;
    Some(log.identity.as_str()).filter(|identity| !identity.is_empty())
}

/// Refuses a server whose answers do not fit those of the others.
pub fn ensure_fits(
    hello: &HelloReply,
    number: usize,
    members: &[UpstreamServer],
    scheme: &PrintScheme,
    limits: &MatchLimits,
) -> Result<(), String> {
    let HelloReply {
        min_similarity,
        top,
        ..
    } = hello;
    if hello.scheme != scheme.to_string() {
        return Err(format!(
            "scheme is '{}', expected '{scheme}'; prints of two schemes cannot be compared",
            hello.scheme
        ));
    }
    if *min_similarity != limits.min_similarity.to_f64() {
        let asked = limits.min_similarity.to_f64();
        return Err(format!(
            "it answers from a similarity of {min_similarity} on, expected {asked}; give both the same least similarity"
        ));
    }
    if *top < limits.top {
        return Err(format!(
            "it gives the best {top}, expected {} or more; start it with a limit of {}",
            limits.top, limits.top
        ));
    }
    for (at, other) in members.iter().enumerate() {
        if at != number
            && let Some(known) = &other.known
        {
            ensure_fits_beside(hello, known, &other.name)?;
        }
    }
    Ok(())
}

/// Servers that follow one log are replicas; all others keep different cardinalities.
fn ensure_fits_beside(hello: &HelloReply, other: &HelloReply, name: &str) -> Result<(), String> {
    let (buckets, theirs) = (hello.buckets, other.buckets);
    let (own_log, their_log) = (log(hello), log(other));
    if buckets == theirs && hello.log.is_some() && other.log.is_some() {
        // One that has not heard of its log yet is asked again.
        return match (own_log, their_log) {
            (Some(own), Some(their)) if own != their => Err(format!(
                "it follows the log {own}, and {name} follows {their}; replicas follow one log"
            )),
            _ => Ok(()),
        };
    }
    if theirs.overlaps(&(buckets.first..=buckets.last)) {
        return Err(format!(
            "it keeps cardinalities {buckets}, and {name} keeps {theirs}; give each a range of its own, or let both follow one log"
        ));
    }
    if own_log.is_some() && own_log == their_log {
        return Err(format!(
            "it keeps cardinalities {buckets} of the log of {name}, which keeps {theirs}; give each range a log of its own"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::backend::LogReply;

    fn hello(identity: &str, arrived: u64, log: Option<&str>) -> HelloReply {
        HelloReply {
            scheme: String::new(),
            buckets: CardinalityRange::ALL,
            entries: 0,
            min_similarity: 1.0,
            top: 1,
            identity: identity.to_owned(),
            arrived,
            log: log.map(|identity| LogReply {
                identity: identity.to_owned(),
                position: 0,
                last: 0,
                is_ready: true,
            }),
        }
    }

    #[test]
    fn servers_that_lost_documents_are_refused() {
        let continues = |before: HelloReply, now: HelloReply| {
            let address = ServiceAddress::Unix("s".into());
            let mut server = UpstreamServer::new(&address);
            server.known = Some(before);
            let what = server.ensure_continues(&now);
            what.map_err(|what| what[..what.find([':', ',']).unwrap()].to_owned())
        };
        let err = |what: &str| Err(what.to_owned());
        assert_eq!(continues(hello("h", 3, None), hello("h", 3, None)), Ok(()));
        assert_eq!(
            continues(hello("h", 3, None), hello("h", 2, None)),
            err("it has lost documents")
        );
        assert_eq!(
            continues(hello("h", 3, None), hello("i", 9, None)),
            err("it has lost the 3 documents that came to it")
        );
        assert_eq!(continues(hello("h", 0, None), hello("i", 0, None)), Ok(()));
        // A server of a log gets all entries again.
        assert_eq!(
            continues(hello("h", 3, Some("l")), hello("i", 0, Some("l"))),
            Ok(())
        );
        assert_eq!(
            continues(hello("h", 3, Some("l")), hello("i", 0, Some(""))),
            Ok(())
        );
        assert_eq!(
            continues(hello("h", 3, Some("l")), hello("h", 3, Some("m"))),
            err("it follows the log m")
        );
        assert_eq!(
            continues(hello("h", 3, Some("l")), hello("h", 3, None)),
            err("it follows no log")
        );
        assert_eq!(
            continues(hello("h", 3, None), hello("h", 3, Some("l"))),
            Ok(())
        );
    }

    #[test]
    fn replicas_follow_one_log() {
        let beside = |one: HelloReply, two: HelloReply| ensure_fits_beside(&one, &two, "s").is_ok();
        let part = |log| HelloReply {
            buckets: CardinalityRange::new(0, 9).unwrap(),
            ..hello("h", 0, log)
        };
        assert!(beside(hello("h", 1, Some("l")), hello("i", 1, Some("l"))));
        assert!(beside(hello("h", 1, Some("")), hello("i", 1, Some("l"))));
        assert!(!beside(hello("h", 1, Some("m")), hello("i", 1, Some("l"))));
        assert!(!beside(hello("h", 1, None), hello("i", 1, Some("l"))));
        assert!(!beside(hello("h", 1, None), hello("i", 1, None)));
        assert!(!beside(part(Some("l")), hello("i", 1, Some("l"))));
        let high = HelloReply {
            buckets: CardinalityRange::new(10, 256).unwrap(),
            ..hello("h", 0, Some("l"))
        };
        assert!(!beside(part(Some("l")), high.clone()));
        assert!(beside(part(Some("m")), high));
    }
}
