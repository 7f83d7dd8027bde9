"""What happens when processes are killed or forked, disks are full, and files or servers are hostile."""
