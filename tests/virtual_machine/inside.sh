# The first process of the virtual machine: what systemd would have laid out, then the command.
. /share/settings
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=000 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 -o nsdelegate,memory_recursiveprot none /sys/fs/cgroup
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro tree /incoming
ln -sf /proc/self/fd /dev/fd
ip link set lo up
cp -a /incoming/. "$checkout"
echo "$namespaces" > /proc/sys/kernel/unprivileged_userns_clone

hand_down() {
    echo "+memory +cpu +pids" > "$1/cgroup.subtree_control"
}

top=/sys/fs/cgroup
hand_down $top
if [ "$as" = user ]; then
    group=$top/user.slice/user-1001.slice/user@1001.service/app.slice/tests.scope
    become="setpriv --reuid 1001 --regid 1001 --clear-groups"
    export HOME=/tmp/home
    install -d -o 1001 -g 1001 $HOME
    getent passwd 1001 > /dev/null || echo "person:x:1001:1001::$HOME:/bin/bash" >> /etc/passwd
else
    group=$top/system.slice/tests.service
    become=
fi
leaf=$group/sbx-tests-engine
mkdir -p "$leaf"
path=$top
for name in $(echo "${group#"$top"/}" | tr / ' '); do
    path=$path/$name
    hand_down "$path"
done
if [ "$as" = user ]; then
    manager=$top/user.slice/user-1001.slice/user@1001.service
    chown -R 1001:1001 "$manager/app.slice"
    chown 1001:1001 "$manager" "$manager/cgroup.procs" "$manager/cgroup.subtree_control"
fi

(
    echo "$BASHPID" > "$leaf/cgroup.procs"
    cd "$checkout" || exit 1
    eval "exec $become $(cat /share/command)"
) > /share/output 2>&1 < /dev/null
echo $? > /share/status
sync
echo o > /proc/sysrq-trigger
sleep 60
