"""How an agent learns: the rules, their losses and gradients."""
