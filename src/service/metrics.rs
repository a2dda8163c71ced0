//! What a server counts, in the text format of Prometheus.

use super::{
    clients::ServiceClients, history::HistoryService, indexes::ServedIndexes, memory::ClientMemory,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode},
    metrics::{counter::Counter, family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::{
    fmt::{self, Debug, Formatter},
    sync::Arc,
    time::Duration,
};

/// The upper ends of the buckets of latencies, in seconds.
const BUCKETS: [f64; 15] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0,
];

/// What a server counts.
#[derive(Clone)]
pub struct ServiceMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    lines: Counter,
    registry: Arc<Registry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
    method: String,
}

/// What is looked at when the metrics are asked for.
pub struct ServiceState {
    pub history: Option<Arc<dyn HistoryService>>,
    pub indexes: Arc<ServedIndexes>,
    pub clients: Arc<ServiceClients>,
    pub memory: Arc<ClientMemory>,
}

impl Debug for ServiceState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceState").finish_non_exhaustive()
    }
}

impl ServiceMetrics {
    pub fn new(state: ServiceState) -> Self {
        let requests = Family::default();
        let new_histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let seconds = Family::new_with_constructor(new_histogram);
        let lines = Counter::default();
        let mut registry = Registry::with_prefix("dedup");
        registry.register(
            "http_requests",
            "Requests over HTTP that were answered",
            requests.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "The time from the head of a request to the head of its answer",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register(
            "line_requests",
            "Requests on lines that were read",
            lines.clone(),
        );
        registry.register_collector(Box::new(state));
        Self {
            requests,
            seconds,
            lines,
            registry: Arc::new(registry),
        }
    }

    /// Counts an answer over HTTP. `route` is one of the routes, not the path of the request, so
    /// that their number is bounded.
    pub fn count(&self, route: &str, method: &str, status: u16, took: Duration) {
        let (route, method) = (route.to_owned(), method.to_owned());
        let labels = RequestLabels {
            route: route.clone(),
            method: method.clone(),
            status,
        };
        self.requests.get_or_create(&labels).inc();
        self.seconds
            .get_or_create(&RouteLabels { route, method })
            .observe(took.as_secs_f64());
    }

    /// Counts requests on lines.
    pub fn count_lines(&self, count: usize) {
        self.lines.inc_by(count as u64);
    }

    /// All of them as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Collector for ServiceState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut put = |name: &str, help: &str, value: u64| {
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)
        };
        put(
            "clients",
            "Clients that are connected",
            self.clients.count() as u64,
        )?;
        put(
            "client_memory_bytes",
            "Memory of clients beyond their own shares",
            self.memory.used() as u64,
        )?;
        if let Some(history) = &self.history {
            let status = history.status();
            put(
                "history_entries",
                "Entries of the history",
                status.hello.entries,
            )?;
            put(
                "history_unsynced_bytes",
                "Bytes of journals that may not be on disk yet",
                status.unsynced_bytes,
            )?;
            put(
                "history_ready",
                "1 if the history answers",
                u64::from(status.not_ready.is_none()),
            )?;
            if let Some(log) = &status.hello.log {
                put(
                    "history_log_position",
                    "The last entry of the log that was applied",
                    log.position,
                )?;
                put(
                    "history_log_last",
                    "The last entry of the log, as far as it is known",
                    log.last,
                )?;
            }
        }
        self.encode_indexes(encoder)
    }
}

impl ServiceState {
    fn encode_indexes(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if self.indexes.is_empty() {
            return Ok(());
        }
        let shape = ConstGauge::new(0_u64);
        for (name, help, is_generation) in [
            ("index_generation", "The last commit of an index", true),
            ("index_documents", "The documents of an index", false),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, shape.metric_type())?;
            for (index, served) in self.indexes.iter() {
                let current = served.current();
                let value = if is_generation {
                    current.index().manifest.generation
                } else {
                    current.documents()
                };
                let labels = [("index", index)];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
