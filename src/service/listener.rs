//! Listening sockets and connections of the runtime.

use crate::{
    base::error::{Error, Result},
    history::backend::{Connection, ServiceAddress, SocketListener},
};
use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep},
};

/// How long no client is accepted after the system ran out of file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// A listening socket.
pub struct ServiceListener(AsyncFd<SocketListener>);

impl ServiceListener {
    /// Registers a socket with the runtime.
    pub fn new(socket: SocketListener, name: &ServiceAddress) -> Result<Self> {
        // SAFETY: a socket keeps its descriptor, which is open until it is dropped.
        let registered = unsafe { AsyncFd::register(socket) };
        registered
            .map(Self)
            .map_err(|error| Error::io(name, error.into()))
    }

    /// The next connection.
    pub async fn accept(&self) -> ServiceStream {
        loop {
            let accepted = match self.0.readable().await {
                Ok(mut ready) => match ready.try_io(|socket| socket.get_ref().accept()) {
                    Ok(accepted) => accepted.and_then(ServiceStream::new),
                    // Nothing is there any more.
                    Err(_) => continue,
                },
                Err(error) => Err(error),
            };
            match accepted {
                Ok(stream) => return stream,
                Err(error)
                    if [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted]
                        .contains(&error.kind()) => {}
                // Too many open files: wait until a client disconnects.
                Err(_) => tokio::time::sleep(BREATH).await,
            }
        }
    }
}

/// A connection to a client.
pub enum ServiceStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl ServiceStream {
    fn new(connection: Connection) -> io::Result<Self> {
        match connection {
            Connection::Unix(stream) => UnixStream::from_std(stream).map(Self::Unix),
            Connection::Tcp(stream) => TcpStream::from_std(stream).map(Self::Tcp),
        }
    }

    /// Returns when something may have arrived.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.readable().await,
            Self::Tcp(stream) => stream.readable().await,
        }
    }

    /// Appends what has arrived, as far as the buffer has room; 0 bytes are the end.
    pub async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            self.readable().await?;
            let read = match self {
                Self::Unix(stream) => stream.try_read_buf(buffer),
                Self::Tcp(stream) => stream.try_read_buf(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Writes as much as the socket takes without waiting; 0 if it takes nothing.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tcp(stream) => stream.try_write(bytes),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    /// Returns when the socket may take more.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.writable().await,
            Self::Tcp(stream) => stream.writable().await,
        }
    }
}

/// A connection that breaks if its client takes nothing for too long.
pub struct PatientStream<S> {
    stream: S,
    limit: Duration,
    /// Set while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> PatientStream<S> {
    pub fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            deadline: None,
        }
    }

    /// Notes whether a write waits, and for how long it does.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let limit = self.limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}

impl AsyncRead for ServiceStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ServiceStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
