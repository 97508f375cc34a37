"""The system calls that exist for programs in a sandbox, and those that are refused by name.

``ALLOWED`` is the set that container engines allow without any capability of its own: the default
profile of moby/profiles (``seccomp/default.json``, commit 02e898b137ae, read on 2026-11-22), which
Docker uses; containerd's and Podman's differ in little. Left out of it are the calls in
``FORBIDDEN``, and ``memfd_secret``, whose memory appears in no count that a limit is kept by. Added
is ``uprobe``, which the kernel lets through every filter, as it does ``uretprobe``.
"""

from __future__ import annotations

from typing import Final

ALLOWED_GROUPS: Final = {
    "files": """
        access cachestat chdir chmod chown chroot close close_range copy_file_range creat dup dup2
        dup3 faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown
        fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs
        fsync ftruncate futimesat getcwd getdents getdents64 getxattr getxattrat lchown lgetxattr
        link linkat listmount listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lstat
        mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64
        pwritev pwritev2 read readahead readlink readlinkat readv removexattr removexattrat rename
        renameat renameat2 rmdir sendfile setxattr setxattrat splice stat statfs statmount statx
        symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime
        utimensat utimes vmsplice write writev
    """,
    "waiting for events": """
        epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
        fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel
        io_destroy io_getevents io_pgetevents io_setup io_submit pause poll ppoll pselect6 select
        signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime
    """,
    "processes, threads and signals": """
        arch_prctl capget capset clone execve execveat exit exit_group fork futex futex_requeue
        futex_wait futex_waitv futex_wake get_robust_list getcpu getegid geteuid getgid getgroups
        getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid
        gettid getuid ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset
        landlock_restrict_self membarrier personality pidfd_open pidfd_send_signal prctl prlimit64
        process_mrelease process_vm_readv process_vm_writev ptrace restart_syscall rseq
        rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
        rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
        sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
        sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp
        set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority
        setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack tgkill tkill
        uprobe uretprobe vfork wait4 waitid
    """,
    "memory": """
        brk madvise map_shadow_stack memfd_create mincore mlock mlock2 mlockall mmap mprotect
        mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect
        remap_file_pages
    """,
    "sockets, queues and shared memory": """
        accept accept4 bind connect getpeername getsockname getsockopt ioctl listen mq_getsetattr
        mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd pipe
        pipe2 recvfrom recvmmsg recvmsg semctl semget semop semtimedop sendmmsg sendmsg sendto
        setsockopt shmat shmctl shmdt shmget shutdown socket socketpair
    """,
    "time, and what the machine is": """
        alarm clock_getres clock_gettime clock_nanosleep getitimer getrandom gettimeofday nanosleep
        setitimer sysinfo time timer_create timer_delete timer_getoverrun timer_gettime
        timer_settime times uname
    """,
}
"""The names of the allowed calls, by what they are about."""

FORBIDDEN_GROUPS: Final = {
    "mounts, namespaces and handles": """
        fsconfig fsmount fsopen fspick mount mount_setattr move_mount name_to_handle_at
        open_by_handle_at open_tree open_tree_attr pivot_root setns umount2 unshare
    """,
    "what only widens the attack surface of the kernel": """
        add_key bpf fanotify_init io_uring_enter io_uring_register io_uring_setup kcmp keyctl
        lookup_dcookie lsm_set_self_attr modify_ldt nfsservctl perf_event_open request_key
        userfaultfd
    """,
    "the machine: modules, clocks, disks, ports, names, the placement of memory": """
        acct adjtimex clock_adjtime clock_settime delete_module finit_module init_module ioperm
        iopl kexec_file_load kexec_load mbind migrate_pages move_pages quotactl quotactl_fd reboot
        set_mempolicy set_mempolicy_home_node setdomainname sethostname settimeofday swapoff swapon
        syslog vhangup
    """,
}
"""The names of the calls that are refused with EPERM; one in neither list fails with ENOSYS."""


def _names(groups: dict[str, str]) -> frozenset[str]:
    return frozenset(name for text in groups.values() for name in text.split())


ALLOWED: Final = _names(ALLOWED_GROUPS)
FORBIDDEN: Final = _names(FORBIDDEN_GROUPS)
