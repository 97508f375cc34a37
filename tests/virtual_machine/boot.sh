#!/bin/bash
# Runs a command of this checkout on Debian's own kernel, with version 2 control groups as systemd
# lays them out, in a virtual machine made of this machine's files.
#
#   tests/virtual_machine/boot.sh [--user] [--no-namespaces] COMMAND [ARGUMENT ...]
#   tests/virtual_machine/boot.sh .venv/bin/python -B -m pytest -p no:cacheprovider tests/isolation
#   tests/virtual_machine/boot.sh --user /usr/bin/python3 -B tests/isolation/as_ordinary_user.py /tmp/d
#   tests/virtual_machine/boot.sh --user --no-namespaces .venv/bin/python tests/virtual_machine/one_sandbox.py
#
# For machines whose kernel or control groups differ from those that most people have. Not part of
# any test run: without hardware virtualisation everything takes ten times as long, so tests with a
# time limit of their own may fail for that reason alone (pytest: -o timeout=600).
#
# The command runs as root in a service, or with --user as id 1001 in a scope of its user manager;
# both delegated, with the command in a group beside which an engine makes its sandboxes' groups.
# With --no-namespaces ordinary users may make none: kernel.unprivileged_userns_clone is 0.
# Nothing is left of a run; the disk and the kernel are kept in VM_DIR (about 5 GB) for the next one.
#
# Needs root, a Debian host and: apt-get install qemu-system-x86 busybox-static cpio kmod e2fsprogs
# Settings: VM_DIR, VM_MEMORY (MiB), VM_PROCESSORS, VM_ACCEL (tcg, or kvm where that works),
# VM_SECONDS (after which it is switched off).
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd)
dir=${VM_DIR:-/var/tmp/sbx-virtual-machine}
as=root
namespaces=1
while :; do
    case "${1:-}" in
        --user) as=user ;;
        --no-namespaces) namespaces=0 ;;
        *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$dir/share"
cd "$dir"

get_kernel() {
    local name
    name=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -1)
    (mkdir -p kernel.new && cd kernel.new && apt-get download "$name" && dpkg -x ./*.deb .)
    depmod -b kernel.new "$(ls kernel.new/lib/modules)"
    mv kernel.new kernel
}

make_initramfs() {
    local version module
    version=$(ls kernel/lib/modules)
    rm -rf initramfs && mkdir -p initramfs/{bin,proc,sys,dev,root,lib}
    cp /bin/busybox initramfs/bin/
    for module in virtio_pci virtio_blk virtio_rng crc32c_generic ext4 9p 9pnet_virtio overlay loop; do
        modprobe -d "$PWD/kernel" -S "$version" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
        cp "$module" initramfs/lib/
        echo "/lib/${module##*/}" >> initramfs/modules
    done
    cat > initramfs/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r module; do insmod "$module"; done < /modules
mount -t ext4 /dev/vda /root
for name in proc sys dev; do mount --move /$name /root/$name; done
exec switch_root /root /virtual-machine-init
INIT
    chmod +x initramfs/init
    (cd initramfs && find . | cpio -o -H newc 2> /dev/null | gzip) > initramfs.gz
}

# This machine's programs and this checkout's environment, so that both are on a real file system.
make_disk() {
    local python environment
    environment=${VIRTUAL_ENV:-$checkout/.venv}
    python=$("$environment/bin/python" -c 'import os, sys; print(os.path.realpath(sys.base_prefix))')
    rm -rf mnt && mkdir mnt
    truncate -s 16G disk.new
    mkfs.ext4 -q -E nodiscard disk.new
    mount -o loop disk.new mnt
    trap 'umount "$dir/mnt"' EXIT
    mkdir -p mnt/{proc,sys,dev,run,tmp,root,home,srv,opt,share,incoming} "mnt$checkout"
    chmod 1777 mnt/tmp
    tar cf - -C / --exclude=usr/share/doc --exclude=usr/lib/{chromium,jvm,google-cloud-sdk} \
        --exclude=usr/lib/llvm-\* usr etc bin sbin lib lib64 var/lib/{dpkg,apt} \
        "${python#/}" "${environment#/}" \
        | tar xf - -C mnt
    cp -r kernel/lib/modules mnt/usr/lib/
    cat > mnt/virtual-machine-init <<'INIT'
#!/bin/bash
mount -t 9p -o trans=virtio,version=9p2000.L share /share
exec bash /share/inside.sh
INIT
    chmod +x mnt/virtual-machine-init
    umount mnt
    trap - EXIT
    mv disk.new disk
}

[ -d kernel ] || get_kernel
[ -e initramfs.gz ] || make_initramfs
[ -e disk ] || make_disk

rm -rf tree share/* && mkdir tree
tar cf - -C "$checkout" sbx_jupyter tests pyproject.toml | tar xf - -C tree
printf '%q ' "$@" > share/command
cat > share/settings <<SETTINGS
checkout=$checkout
as=$as
namespaces=$namespaces
SETTINGS
cp "$checkout/tests/virtual_machine/inside.sh" share/inside.sh

timeout "${VM_SECONDS:-3600}" qemu-system-x86_64 -accel "${VM_ACCEL:-tcg}" -cpu max \
    -m "${VM_MEMORY:-3072}" -smp "${VM_PROCESSORS:-2}" -display none -serial file:console.log \
    -monitor none -no-reboot -net none -device virtio-rng-pci \
    -kernel kernel/boot/vmlinuz-* -initrd initramfs.gz -append "console=ttyS0 panic=-1 quiet" \
    -snapshot -drive file=disk,format=raw,if=virtio,cache=unsafe \
    -virtfs local,path=tree,mount_tag=tree,security_model=none,readonly=on,multidevs=remap \
    -virtfs local,path=share,mount_tag=share,security_model=none || true

cat share/output 2> /dev/null || tail -20 console.log
exit "$(cat share/status 2> /dev/null || echo 1)"
