"""More than one collector: who lives, who writes which partition, and how one follows another without harm."""
