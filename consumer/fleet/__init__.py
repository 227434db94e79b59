"""What the centre knows of the hosts: who lives, who is stuck, who is dead, and how far each partition is read."""
