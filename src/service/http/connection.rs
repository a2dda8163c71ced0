//! One connection, which may carry many requests.

use super::HttpServer;
use crate::service::{
    clients::ClientPlace,
    listener::{PatientStream, ServiceStream},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// The most bytes of the head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// How long a client that gets no place may take to read that.
const LAST_WAIT: Duration = Duration::from_secs(1);

impl HttpServer {
    /// Serves a connection until its client closes it, is silent for too long, or the server stops.
    pub async fn serve(&self, stream: ServiceStream, place: ClientPlace) {
        let Some(tls) = &self.service.tls else {
            return self.serve_stream(stream, place).await;
        };
        let limit = self.service.options.idle_timeout;
        // A client that does not speak TLS is disconnected.
        if let Ok(Ok(stream)) = timeout(limit, tls.accept(stream)).await {
            self.serve_stream(stream, place).await;
        }
    }

    async fn serve_stream(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        place: ClientPlace,
    ) {
        // Connections with requests are never silent; hyper closes those without.
        place.note(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.service.options.idle_timeout)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(
                TokioIo::new(PatientStream::new(
                    stream,
                    self.service.options.idle_timeout,
                )),
                TowerToHyperService::new(self.router.clone()),
            );
        tokio::pin!(connection);
        tokio::select! {
            // The client is gone, or did not speak HTTP.
            _ = connection.as_mut() => return,
            () = self.service.control.stopped() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }

    /// Tells a client that there is no place for it.
    pub async fn refuse(&self, mut stream: ServiceStream) {
        if self.service.tls.is_some() {
            // A handshake would cost more than a request.
            return;
        }
        let most = self.service.clients.most();
        let body = format!(
            "{{\"error\":\"{most} clients are connected, which is the limit; try again later\"}}\n"
        );
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let send = async {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
            let mut block = [0; 1024];
            while AsyncReadExt::read(&mut stream, &mut block).await? > 0 {}
            std::io::Result::Ok(())
        };
        // A client that does not read it is disconnected.
        let _ = timeout(LAST_WAIT, send).await;
    }
}
