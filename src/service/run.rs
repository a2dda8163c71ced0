//! Runs a server: opens its sockets, serves clients, and ends when it has answered them.

use super::{
    auth::ServiceToken,
    clients::{Admission, ServiceClients},
    history::{HistoryService, ReaderPool, RequestReader},
    http::{HttpHistory, HttpServer, HttpService, PageStore},
    indexes::{LOOK_EVERY, ServedIndexes},
    lines::{LineService, refuse_lines},
    listener::{ServiceListener, ServiceStream},
    memory::ClientMemory,
    metrics::{ServiceMetrics, ServiceState},
    options::{ListeningAddress, ServiceControl, ServiceOptions, ServiceSecurity},
    tls::ServiceTls,
    workers::Workers,
};
use crate::{
    base::error::{Error, Result},
    history::backend::{ProblemReporter, ServiceAddress, SocketListener},
};
use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::JoinSet,
    time::{self, timeout},
};

/// How long clients may take to read their last answers when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Serves until it is stopped; then all requests that were read are answered, and all additions are
/// on disk.
///
/// Calls `ready` with its addresses once it is listening.
pub fn serve(
    history: Option<Arc<dyn HistoryService>>,
    options: &ServiceOptions,
    control: &ServiceControl,
    report: &ProblemReporter,
    ready: impl FnOnce(&[ListeningAddress]),
) -> Result<()> {
    let ran = runtime(options).and_then(|runtime| {
        runtime.block_on(run(history.clone(), options, control, report, ready))
    });
    // Closes the history even after an error.
    let closed = history.map_or(Ok(()), |history| history.close());
    ran.and(closed)
}

fn runtime(options: &ServiceOptions) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(options.threads.clamp(1, 8))
        .enable_all()
        .build()
        .map_err(|error| Error::io("the threads of the service", error))
}

/// What all listeners have in common.
struct Serving {
    clients: Arc<ServiceClients>,
    control: ServiceControl,
    lines: Option<Arc<LineService>>,
    http: Arc<HttpServer>,
}

async fn run(
    history: Option<Arc<dyn HistoryService>>,
    options: &ServiceOptions,
    control: &ServiceControl,
    report: &ProblemReporter,
    ready: impl FnOnce(&[ListeningAddress]),
) -> Result<()> {
    let workers = Workers::start(options.threads)?;
    let indexes = ServedIndexes::open(&options.indexes, &options.reading, report.clone())?;
    let indexes = Arc::new(indexes);
    let sockets = bind_all(options)?;
    let addresses: Vec<ListeningAddress> =
        sockets.iter().map(|(_, address)| address.clone()).collect();
    let serving = Serving::new(history.clone(), options, control, &workers, &indexes)?;
    let serving = Arc::new(serving);
    let (reading, mut all_read) = mpsc::channel::<()>(1);
    let mut listeners = JoinSet::new();
    for (listener, address) in sockets {
        let (serving, reading) = (serving.clone(), reading.clone());
        listeners.spawn(async move {
            match address {
                ListeningAddress::Lines(_) => serving.serve_lines(listener, reading).await,
                _ => serving.serve_http(listener).await,
            }
        });
    }
    drop(reading);
    let refreshing = tokio::spawn(refresh(serving.http.clone(), report.clone()));
    ready(&addresses);
    control.stopped().await;
    refreshing.abort();
    // Everything that was read is submitted; then the history answers it, and is closed.
    let _ = all_read.recv().await;
    if let Some(history) = history {
        let closed = tokio::task::spawn_blocking(move || history.close());
        closed
            .await
            .unwrap_or_else(|error| Err(Error::io("the history", io::Error::other(error))))?;
    }
    let all_left = async { while listeners.join_next().await.is_some() {} };
    // Clients that do not read their answers are disconnected.
    let _ = timeout(LAST_ANSWERS, all_left).await;
    Ok(())
}

fn bind_all(options: &ServiceOptions) -> Result<Vec<(ServiceListener, ListeningAddress)>> {
    let mut sockets = Vec::new();
    type Kind = fn(ServiceAddress) -> ListeningAddress;
    let http: Kind = match options.security.tls {
        Some(_) => ListeningAddress::Https,
        None => ListeningAddress::Http,
    };
    let wanted: [(&Option<ServiceAddress>, Kind); 2] = [
        (&options.http, http),
        (&options.lines, ListeningAddress::Lines),
    ];
    for (name, kind) in wanted {
        if let Some(name) = name {
            let socket = SocketListener::bind(name, options.allow_remote)?;
            let address = socket.address().map_err(|error| Error::io(name, error))?;
            sockets.push((ServiceListener::new(socket, name)?, kind(address)));
        }
    }
    Ok(sockets)
}

/// Looks for new generations of the indexes; when told to, reads all other files again.
async fn refresh(server: Arc<HttpServer>, report: ProblemReporter) {
    let service = server.service();
    let mut reloads = service.control.reloads();
    loop {
        let is_reload = tokio::select! {
            changed = reloads.changed() => changed.is_ok(),
            () = time::sleep(LOOK_EVERY) => false,
        };
        if is_reload {
            service
                .reload_secrets()
                .iter()
                .for_each(|problem| report(problem));
        }
        service.indexes.refresh(&service.workers, is_reload).await;
    }
}

impl Serving {
    fn new(
        history: Option<Arc<dyn HistoryService>>,
        options: &ServiceOptions,
        control: &ServiceControl,
        workers: &Workers,
        indexes: &Arc<ServedIndexes>,
    ) -> Result<Self> {
        let memory = Arc::new(ClientMemory::new(options.client_bytes));
        let clients = ServiceClients::new(options.max_clients, options.idle_timeout);
        let metrics = ServiceMetrics::new(ServiceState {
            history: history.clone(),
            indexes: indexes.clone(),
            clients: clients.clone(),
            memory: memory.clone(),
        });
        let lines = |history: &Arc<dyn HistoryService>| -> Result<_> {
            let limits = history.rules().limits;
            let reader = RequestReader::new(&options.reading, history.scheme(), limits)?;
            Ok(Arc::new(LineService {
                history: history.clone(),
                readers: Arc::new(ReaderPool::new(reader)),
                workers: workers.clone(),
                memory: memory.clone(),
                metrics: metrics.clone(),
                idle_timeout: options.idle_timeout,
                control: control.clone(),
            }))
        };
        let lines = history.as_ref().map(lines).transpose()?;
        let ServiceSecurity {
            tls, token_file, ..
        } = &options.security;
        let http = HttpService {
            history: HttpHistory::of(history)?,
            indexes: indexes.clone(),
            workers: workers.clone(),
            metrics,
            token: token_file.as_deref().map(ServiceToken::read).transpose()?,
            tls: tls.as_ref().map(ServiceTls::open).transpose()?,
            pages: PageStore::default(),
            memory,
            clients: clients.clone(),
            options: options.clone(),
            control: control.clone(),
        };
        Ok(Self {
            clients,
            control: control.clone(),
            lines,
            http: Arc::new(HttpServer::new(http)),
        })
    }

    async fn serve_lines(self: Arc<Self>, listener: ServiceListener, reading: mpsc::Sender<()>) {
        let Some(lines) = self.lines.clone() else {
            return;
        };
        let accepted = self.accept(listener, |admission, stream| {
            let (lines, reading, most) = (lines.clone(), reading.clone(), self.clients.most());
            async move {
                match admission {
                    Admission::Admitted(place) => lines.serve(stream, place, reading).await,
                    Admission::Refused(_place) => {
                        drop(reading);
                        let what = format!(
                            "{most} clients are connected, which is the limit; try again later"
                        );
                        refuse_lines(stream, &what).await;
                    }
                    Admission::Dropped => {}
                }
            }
        });
        let connections = accepted.await;
        drop(reading);
        connections.join_all().await;
    }

    async fn serve_http(self: Arc<Self>, listener: ServiceListener) {
        let accepted = self.accept(listener, |admission, stream| {
            let http = self.http.clone();
            async move {
                match admission {
                    Admission::Admitted(place) => http.serve(stream, place).await,
                    Admission::Refused(_place) => http.refuse(stream).await,
                    Admission::Dropped => {}
                }
            }
        });
        accepted.await.join_all().await;
    }

    /// Accepts clients until the server stops; returns those that are still connected.
    async fn accept<S>(
        &self,
        listener: ServiceListener,
        serve: impl Fn(Admission, ServiceStream) -> S,
    ) -> JoinSet<()>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = self.control.stopped() => break,
                stream = listener.accept() => {
                    connections.spawn(serve(self.clients.admit(), stream));
                }
                _ = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        connections
    }
}
