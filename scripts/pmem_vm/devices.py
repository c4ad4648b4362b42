"""The kinds of persistent memory that QEMU emulates."""

import dataclasses

DEVICE_SIZE = "512M"


@dataclasses.dataclass(frozen=True)
class Device:
    """A kind of persistent memory, and what Halite must call it."""

    name: str
    title: str
    machine: str
    domain: str
    kernel_arguments: str = ""

    def arguments(self, image):
        """QEMU's arguments for the device; `image` is the path of its contents, without suffix."""
        memory = f"memory-backend-file,id=memory,share=on,mem-path={image}.image,size={DEVICE_SIZE}"
        match self.name:
            case "nvdimm":
                return ["-object", memory, "-device", "nvdimm,id=device,memdev=memory"]
            case "virtio":
                return ["-object", memory, "-device", "virtio-pmem-pci,id=device,memdev=memory"]
            case "cxl":
                labels = f"memory-backend-file,id=labels,share=on,mem-path={image}.labels,size=128K"
                # Without a serial number (sn), Linux refuses the labels of namespaces when it meets
                # them again: "invalid interleave-set-cookie".
                return [
                    *("-object", memory, "-object", labels),
                    *("-device", "pxb-cxl,id=bridge,bus=pcie.0,bus_nr=12"),
                    *("-device", "cxl-rp,id=root-port,bus=bridge,port=0,chassis=0,slot=2"),
                    *("-device", "cxl-type3,id=device,bus=root-port,memdev=memory,lsa=labels,sn=1"),
                    *("-machine", "cxl-fmw.0.targets.0=bridge,cxl-fmw.0.size=4G"),
                ]


DEVICES = {
    device.name: device
    for device in (
        Device("nvdimm", "NVDIMM", "q35,nvdimm=on", "memory"),
        # Left to handle errors itself, Linux wants interrupts of the device's event logs, which the
        # device in QEMU 7.2 does not have ("Failed to get interrupt for event Info log").
        Device("cxl", "CXL type 3", "q35,cxl=on", "memory", "pcie_ports=compat"),
        # Its flushes are requests to the host, so Linux refuses MAP_SYNC.
        Device("virtio", "virtio-pmem", "q35", "page-cache"),
    )
}
