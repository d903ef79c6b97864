//! The vfio-user side of a device.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use thiserror::Error;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_ERR_IRQ_INDEX,
    VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_MMAP, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
    vfio_region_info, vfio_region_sparse_mmap_area,
};
use vfio_user::{
    DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion, SparseArea,
};

use super::{BarRegion, Device};
use crate::log::Log;

/// A device at its socket. QEMU can connect from here on.
pub struct Endpoint {
    path: PathBuf,
    server: Server,
    backend: Backend,
}

/// Why a device could not be served.
#[derive(Debug, Error)]
#[error("serve {}", .path.display())]
pub struct ServeError {
    /// The socket.
    pub path: PathBuf,
    /// What happened.
    #[source]
    pub source: vfio_user::Error,
}

struct Backend {
    device: Box<dyn Device>,
    log: Log,
}

impl Endpoint {
    /// Binds `device` to a socket named after it in `directory`.
    pub fn bind(directory: &Path, device: Box<dyn Device>, log: Log) -> Result<Self, ServeError> {
        let path = directory.join(format!("{}.sock", device.name()));
        let regions = (0..VFIO_PCI_NUM_REGIONS).map(|index| region(device.as_ref(), index));
        let server = Server::new(&path, true, irqs(), regions.collect())
            .map_err(|source| ServeError { path: path.clone(), source })?;
        Ok(Self { path, server, backend: Backend { device, log } })
    }
}

/// Serves one connection to its end.
pub fn serve(mut endpoint: Endpoint) -> Result<(), ServeError> {
    let Endpoint { path, server, backend } = &mut endpoint;
    server.run(backend).map_err(|source| ServeError { path: path.clone(), source })
}

fn irqs() -> Vec<IrqInfo> {
    // QEMU wants the one for errors too, though nothing here ever signals any.
    let one = |index| {
        matches!(index, VFIO_PCI_INTX_IRQ_INDEX | VFIO_PCI_MSI_IRQ_INDEX | VFIO_PCI_ERR_IRQ_INDEX)
    };
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| IrqInfo {
            index,
            flags: if one(index) { VFIO_IRQ_INFO_EVENTFD } else { 0 },
            count: u32::from(one(index)),
        })
        .collect()
}

fn region(device: &dyn Device, index: u32) -> ServerRegion {
    let accessible = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    let info =
        |size, flags| vfio_region_info { argsz: 32, index, size, flags, ..Default::default() };
    let plain = |size| ServerRegion {
        region_info: info(size, if size == 0 { 0 } else { accessible }),
        sparse_areas: Vec::new(),
        mmap_fd: None,
    };
    if index == VFIO_PCI_CONFIG_REGION_INDEX {
        return plain(device.config_size());
    }
    let bar = device.bars().into_iter().find(|bar| u32::from(bar.index) == index);
    match bar {
        None => plain(0),
        Some(BarRegion { size, direct: None, .. }) => plain(size),
        Some(BarRegion { size, direct: Some((memory, areas)), .. }) => ServerRegion {
            region_info: info(size, accessible | VFIO_REGION_INFO_FLAG_MMAP),
            sparse_areas: areas
                .into_iter()
                .map(|area| SparseArea {
                    area: vfio_region_sparse_mmap_area {
                        offset: area.start,
                        size: area.end - area.start,
                    },
                })
                .collect(),
            mmap_fd: Some(memory.as_raw_fd()),
        },
    }
}

enum Place {
    Config(u16),
    Bar(u8),
}

fn place(region: u32, offset: u64) -> io::Result<Place> {
    let nowhere =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("region {region} at {offset:#x}"));
    if region == VFIO_PCI_CONFIG_REGION_INDEX {
        u16::try_from(offset).map(Place::Config).map_err(|_| nowhere())
    } else {
        u8::try_from(region).ok().filter(|bar| *bar < 6).map(Place::Bar).ok_or_else(nowhere)
    }
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match place(region, offset)? {
            Place::Config(at) => {
                self.device.config_read(at, data);
                Ok(())
            }
            Place::Bar(bar) => self.device.bar_read(bar, offset, data, &self.log),
        }
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        match place(region, offset)? {
            Place::Config(at) => self.device.config_write(at, data, &self.log),
            Place::Bar(bar) => self.device.bar_write(bar, offset, data, &self.log),
        }
    }

    // The dies do no DMA: what QEMU maps for them is of no interest.
    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        _: u64,
        _: u64,
        _: u64,
        _: Option<File>,
    ) -> io::Result<()> {
        Ok(())
    }

    fn dma_unmap(&mut self, _: DmaUnmapFlags, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.device.reset(&self.log)
    }

    // Nor do they interrupt.
    fn set_irqs(&mut self, _: u32, _: u32, _: u32, _: u32, _: Vec<File>) -> io::Result<()> {
        Ok(())
    }
}
